//! Settings from flags, variables and files.

use clap::FromArgMatches;
use steadfast_web::Number;

use super::*;

#[derive(Args)]
struct Shop {
    /// How many
    #[arg(long, default_value = "3")]
    shop_count: u32,
    /// Which
    #[arg(long, env = "SHOP_NAMES_OF_A_TEST", value_delimiter = ',')]
    shop_names: Vec<String>,
    /// Whether
    #[arg(long)]
    shop_open: bool,
    /// Hidden
    #[arg(long, hide_env_values = true)]
    shop_key: Option<String>,
    /// For one start
    #[arg(long, hide_env = true)]
    once: bool,
    /// Where
    #[arg(long, env = "SHOP_URL_OF_A_TEST")]
    shop_url: Option<String>,
    /// Bounded by its type
    #[arg(long, default_value = "2")]
    shop_size: Number<1, 5>,
    /// Secret by its type
    #[arg(long)]
    shop_token: Option<Secret>,
}

#[derive(Args)]
struct SameField {
    #[arg(long = "other-key")]
    shop_key: Option<String>,
    #[arg(long = "third", alias = "shop-open")]
    third: bool,
}

#[derive(Args)]
struct Other {
    #[arg(long)]
    shop_count: u32,
}

fn declared(text: &str) -> Result<DeclaredSettings, String> {
    let declared = DeclaredSettings::new(flags_of::<Shop>(), text, Path::new("a.toml"));
    let declared = declared.unwrap_or_else(|_| panic!("its flags differ"));
    declared.failure.clone().map_or(Ok(declared), Err)
}

fn shown(text: &str, line: &[&str]) -> (Shop, String) {
    let declared = declared(text).unwrap();
    let command = declared.add_to(Command::new("shop"));
    let matches = command.try_get_matches_from([&["shop"], line].concat()).unwrap();
    (Shop::from_arg_matches(&matches).unwrap(), declared.show(&matches))
}

#[test]
fn a_flag_overrides_the_file_and_the_file_the_default() {
    let file = "[shop]\ncount = 7\nnames = [\"a\", \"b\"]\nopen = true\nkey = \"secret\"";
    let (shop, text) = shown(file, &[]);
    assert_eq!((shop.shop_count, shop.shop_open), (7, true));
    assert_eq!(shop.shop_names, ["a", "b"]);
    assert_eq!(shop.shop_key.as_deref(), Some("secret"));
    assert!(text.contains("shop-count = 7  (a.toml)\n"), "{text}");
    assert!(text.contains("shop-key = ***  (a.toml)\n") && !text.contains("secret"), "{text}");
    let help = declared(file).unwrap().add_to(Command::new("shop")).render_help().to_string();
    assert!(help.contains("[default: 7]") && !help.contains("secret"), "{help}");
    let (shop, text) = shown(file, &["--shop-count", "8"]);
    assert_eq!(shop.shop_count, 8);
    assert!(text.contains("shop-count = 8  (flag)\n"), "{text}");
    let (shop, text) = shown("", &[]);
    assert_eq!(shop.shop_count, 3);
    assert!(text.contains("shop-count = 3  (default)\n"), "{text}");
}

#[test]
fn the_type_of_a_setting_gives_its_bounds_and_keeps_it_secret() {
    let file = "[shop]\nsize = 5\ntoken = \"hush\"";
    let (shop, text) = shown(file, &[]);
    assert_eq!((shop.shop_size.get(), shop.shop_token), (5, Some("hush".into())));
    assert!(text.contains("shop-token = ***  (a.toml)\n") && !text.contains("hush"), "{text}");
    let help = declared(file).unwrap().add_to(Command::new("shop")).render_help().to_string();
    assert!(help.contains("--shop-token") && !help.contains("hush"), "{help}");
    for wrong in ["0", "6", "-1"] {
        let error = declared(&format!("[shop]\nsize = {wrong}")).err().unwrap();
        let told = format!(
            "setting `shop-size` in a.toml: invalid value '{wrong}' for \
             '--shop-size <SHOP_SIZE>': {wrong} is not in 1..=5"
        );
        assert_eq!(error, told);
    }
}

#[test]
fn the_password_in_a_url_is_never_shown() {
    let file = "[shop]\nurl = \"https://me:hidden@host/x?sig=hidden\"";
    let (shop, text) = shown(file, &[]);
    assert_eq!(shop.shop_url.as_deref(), Some("https://me:hidden@host/x?sig=hidden"));
    let line = "shop-url = https://me:***@host/x?sig=***  (a.toml)\n";
    assert!(text.contains(line) && !text.contains("hidden"), "{text}");
    let help = declared(file).unwrap().add_to(Command::new("shop")).render_help().to_string();
    assert!(help.contains("--shop-url") && !help.contains("hidden"), "{help}");
    let error = declared("[shop]\ncount = \"http://me:hidden@host\"").err().unwrap();
    assert!(error.contains("shop-count") && !error.contains("hidden"), "{error}");
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let text = "[shop]\ncount = \"many\"\nopen = 3\ncolour = \"red\"\n[other]\nx = 1";
    let error = declared(text).err().unwrap();
    for shown in [
        "setting `shop-count` in a.toml: invalid value 'many'",
        "setting `shop-open` in a.toml: it must be true or false",
        "unknown setting `shop-colour` in a.toml",
        "unknown setting `other-x` in a.toml",
    ] {
        assert!(error.contains(shown), "{shown} is missing in {error}");
    }
    // The line is not quoted, because it may contain a secret.
    let broken = declared("a = 1\n[shop]\nkey = \"hidden").err().unwrap();
    assert!(broken.contains("settings file a.toml, line 3"), "{broken}");
    assert!(!broken.contains("hidden"), "{broken}");
    let once = declared("once = true").err().unwrap();
    assert!(once.contains("on the command line only"), "{once}");
}

#[test]
fn a_duplicate_setting_is_reported_with_both_owners() {
    let flags = [flags_of::<Shop>(), flags_of::<Other>()].concat();
    let Err(Failure::Message(text)) = DeclaredSettings::new(flags, "", Path::new("a")) else {
        panic!("it must fail")
    };
    assert!(text.contains("setting `--shop-count` is declared by"), "{text}");
    assert!(text.contains("::Shop and by") && text.contains("::Other"), "{text}");
    let flags = [flags_of::<Shop>(), flags_of::<SameField>()].concat();
    let Err(Failure::Message(text)) = DeclaredSettings::new(flags, "", Path::new("a")) else {
        panic!("it must fail")
    };
    for shown in ["field `shop_key` of settings is", "setting `--shop-open` is declared"] {
        assert!(text.contains(shown), "{shown} is missing in {text}");
    }
}

/// The settings with these variables, and the lines of `config show`.
fn with_variables(set: &[(&str, &str)], text: &str) -> Result<(Shop, String), String> {
    let mut declared = declared(text)?;
    let find = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.into());
    declared.read_secrets(&find);
    if let Some(failure) = declared.failure.take() {
        return Err(failure);
    }
    let command = declared.add_to(Command::new("shop"));
    let matches = command.try_get_matches_from(["shop"]).unwrap();
    Ok((Shop::from_arg_matches(&matches).unwrap(), declared.show(&matches)))
}

#[test]
fn a_secret_comes_from_the_file_that_its_variable_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "hush\n\n").unwrap();
    let file = ("STEADFAST_SHOP_KEY_FILE", path.to_str().unwrap());
    let (shop, text) = with_variables(&[file], "[shop]\nkey = \"other\"").unwrap();
    assert_eq!(shop.shop_key.as_deref(), Some("hush\n"), "one line end is not part of it");
    assert!(text.contains("shop-key = ***  (STEADFAST_SHOP_KEY_FILE)\n"), "{text}");
    let token = ("STEADFAST_SHOP_TOKEN_FILE", path.to_str().unwrap());
    assert_eq!(with_variables(&[token], "").unwrap().0.shop_token, Some("hush\n".into()));
    let both = [file, ("STEADFAST_SHOP_KEY", "second")];
    let error = with_variables(&both, "").err().unwrap();
    assert!(error.contains("STEADFAST_SHOP_KEY and STEADFAST_SHOP_KEY_FILE are both set"));
    let missing = ("STEADFAST_SHOP_KEY_FILE", "/nowhere/key");
    let error = with_variables(&[missing], "").err().unwrap();
    assert!(error.contains("/nowhere/key cannot be read"), "{error}");
    // Only secrets are read from files.
    let count = ("STEADFAST_SHOP_COUNT_FILE", path.to_str().unwrap());
    assert_eq!(with_variables(&[count], "").unwrap().0.shop_count, 3);
}

#[test]
fn a_secret_file_that_others_may_read_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "hush").unwrap();
    for (mode, is_open) in [(0o604, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let mut declared = declared("").unwrap();
        declared
            .read_secrets(&|name| (name == "STEADFAST_SHOP_KEY_FILE").then(|| path.clone().into()));
        assert_eq!(!declared.open_secrets().is_empty(), is_open, "{mode:o}");
    }
}

#[test]
fn a_settings_file_with_a_secret_that_others_may_read_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.toml");
    std::fs::write(&path, "").unwrap();
    let is_reported = |text: &str, mode| {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let declared = DeclaredSettings::new(flags_of::<Shop>(), text, &path).unwrap();
        assert!(declared.failure.is_none(), "{:?}", declared.failure);
        !declared.open_secrets().is_empty()
    };
    let (key, url) = ("[shop]\nkey = \"hush\"", "[shop]\nurl = \"https://me:hush@host/\"");
    assert!(is_reported(key, 0o604) && is_reported(url, 0o644));
    assert!(is_reported("[shop]\ntoken = \"hush\"", 0o604));
    assert!(!is_reported(key, 0o640) && !is_reported(url, 0o600));
    assert!(!is_reported("[shop]\ncount = 4", 0o644));
    assert!(!is_reported("[shop]\nkey = \"https://host/\"", 0o644));
}

#[test]
fn the_file_is_named_by_flag_or_variable() {
    let line = |it: &[&str]| named_file(&it.iter().map(OsString::from).collect::<Vec<_>>());
    assert_eq!(line(&["p", "serve", "--config", "x"]), Some("x".into()));
    assert_eq!(line(&["p", "--config=y"]), Some("y".into()));
    assert_eq!(line(&["p", "--", "--config=y"]), None);
    assert_eq!(line(&["p", "deploy", "--config", "x"]), None, "it is that verb's own flag");
}
