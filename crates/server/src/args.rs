//! The command line: every flag has an environment variable.

mod examples;
mod source;
mod transport;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Arg, Args, Command, Parser, Subcommand, builder::FalseyValueParser};
use steadfast_api::server::Examine;
use steadfast_core::{RetentionSettings, object::HistoryRetention};
use steadfast_store::{Retention, Secret};
use steadfast_web::Number;
use tracing_subscriber::filter::LevelFilter;

pub(crate) use self::{source::Source, transport::TransportArgs};
use crate::location::StoreChoice;

/// URL of the default server.
pub(crate) const SERVER: &str = "http://127.0.0.1:8787";

/// Port of the default server.
pub(crate) const PORT: u16 = 8787;

/// A durable program: acknowledged changes survive a crash
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
#[command(after_help = examples::STEADFAST)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) verb: Option<VerbArgs>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VerbArgs {
    /// Serve a data folder or a database (the default)
    #[command(after_help = examples::SERVE)]
    Serve,
    /// Serve the data folder of any program read-only: nothing is delivered or changed
    #[command(after_help = examples::INSPECT)]
    Inspect(InspectArgs),
    /// Show the settings
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Print a script that completes commands in a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Check the invariants, the disk and the settings; exit code 1 if a check fails
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// Print a link that logs a browser in once
    #[command(after_help = examples::LOGIN)]
    Login(AskArgs),
    /// Show the principal of the token: its role, organization and scopes
    #[command(after_help = examples::WHOAMI)]
    Whoami(AskArgs),
}

/// The arguments of `inspect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InspectArgs {
    /// Data folder; no server may have it open
    #[arg(long, env = "STEADFAST_DATA", default_value = "./data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Address to listen on; loopback only
    #[arg(long, env = "STEADFAST_LISTEN", default_value = "127.0.0.1:8787", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// File of the key that seals secrets; by default seal.key in the data folder
    #[arg(long, env = "STEADFAST_SEAL_KEY_FILE", value_name = "FILE")]
    pub(crate) seal_key_file: Option<PathBuf>,
    /// Log level on stderr: error, warn, info, debug or trace
    #[arg(long, env = "STEADFAST_LOG", default_value = "info")]
    pub(crate) log: LevelFilter,
}

/// Verbs of `config`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print every setting of `serve` with its value and the source of the value
    #[command(after_help = examples::CONFIG)]
    Show,
}

/// The arguments of `serve`. As settings they have variables: see [`crate::settings`].
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Settings file; by default ./steadfast.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on; others than 127.0.0.1 and [::1] need closed access
    #[arg(long, default_value = "127.0.0.1:8787", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Address of the S3 API, as --listen; `none` disables it
    #[arg(long, default_value = "127.0.0.1:8788", value_parser = s3_listen)]
    pub(crate) s3_listen: S3Listen,
    /// Access: `open` (loopback only, no credentials) or `closed` (every request needs a token).
    /// Closed for good from the first token on
    #[arg(long, default_value = "open", value_name = "MODE")]
    pub(crate) access: Access,
    /// Requests that one token or access key may send per second; 0 for no limit
    #[arg(long, default_value = "1000", value_name = "REQUESTS")]
    pub(crate) rate_limit: u32,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
    /// Data folder; created if it does not exist
    #[arg(long, default_value = "./data")]
    pub(crate) data: PathBuf,
    /// Store: `sqlite` (in the data folder) or postgres://user@host/database
    // It may contain a password, so --help must not print the variable.
    #[arg(long, default_value = "sqlite", hide_env_values = true)]
    pub(crate) store: StoreChoice,
    /// File of the key that seals secrets; by default seal.key in the data folder, which is created
    #[arg(long, value_name = "FILE")]
    pub(crate) seal_key_file: Option<PathBuf>,
    /// Retention of settled messages, in days
    #[arg(long, default_value = "30", value_name = "DAYS")]
    pub(crate) retention: Days,
    /// Retention of dead messages, in days
    #[arg(long, default_value = "90", value_name = "DAYS")]
    pub(crate) dead_retention: Days,
    /// Retention of the turns of objects, in days
    #[arg(long, default_value = "7", value_name = "DAYS")]
    pub(crate) history_retention: Days,
    /// Seconds without use after which an object is evicted from memory
    #[arg(long, default_value = "30", value_name = "SECONDS")]
    pub(crate) object_idle: Number<1, 86_400>,
    /// Memory limit of objects, in MiB; beyond it the least recently used are evicted
    #[arg(long, default_value = "256", value_name = "MIB")]
    pub(crate) object_memory: Number<1, 1_048_576>,
    /// Report clock steps of more than this many seconds, and suspend deletion by age
    #[arg(long, default_value = "300", value_name = "SECONDS")]
    pub(crate) clock_step: Number<1, 86_400>,
    /// Wait while another process owns the store, and take over when it stops or its lease ends
    #[arg(long)]
    pub(crate) wait_for_owner: bool,
    /// Start although the database lacks acknowledged commits; applies to this start only
    // Not in the environment: it is a decision about one loss, not about all later ones.
    #[arg(long, hide_env = true)]
    pub(crate) accept_loss: bool,
    /// Take over a store that belongs to another program; applies to this start only
    // Not in the environment, for the same reason.
    #[arg(long, hide_env = true)]
    pub(crate) adopt: bool,
    /// Replace a lost seal key: secrets that it sealed stay unreadable; applies to this start only
    // Not in the environment, for the same reason.
    #[arg(long, hide_env = true)]
    pub(crate) replace_seal_key: bool,
    /// Files of secret settings that other users may read.
    #[arg(skip)]
    pub(crate) open_secrets: Vec<String>,
    /// Log level on stderr: error, warn, info, debug or trace
    #[arg(long, default_value = "info")]
    pub(crate) log: LevelFilter,
}

/// Address of the S3 API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum S3Listen {
    /// Disabled.
    Off,
    /// Enabled at this address.
    At(SocketAddr),
}

impl S3Listen {
    /// The address, if it is enabled.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => Some(address),
            Self::Off => None,
        }
    }
}

/// Whether requests need a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Access {
    // Not in doc comments, which clap would print for each value.
    // Only if the store has had a token.
    Open,
    // Always, from now on.
    Closed,
}

/// A number of days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Days(u32);

impl std::str::FromStr for Days {
    type Err = String;

    /// At least one day: repeated requests are recognized for that long.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(days @ 1..) => Ok(Self(days)),
            Ok(0) => Err("must be at least 1 day".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl From<Days> for Duration {
    fn from(days: Days) -> Self {
        Duration::from_hours(24 * u64::from(days.0))
    }
}

impl ServeArgs {
    /// The retention periods.
    pub(crate) fn keep(&self) -> RetentionSettings {
        RetentionSettings {
            messages: Retention {
                keep: self.retention.into(),
                keep_dead: self.dead_retention.into(),
            },
            turns: HistoryRetention {
                keep: self.history_retention.into(),
                ..HistoryRetention::DEFAULT
            },
        }
    }
}

/// The server or folder of a verb, and its output format.
#[derive(Clone, Debug, Args)]
pub(crate) struct AskArgs {
    /// URL of the server
    #[arg(long, env = "STEADFAST_SERVER", hide_env_values = true, default_value = SERVER,
        value_name = "URL")]
    server: String,
    /// Root certificates in PEM to trust besides those of the system, for https
    #[arg(long, env = "STEADFAST_CA_FILE", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Open this data folder instead of asking a server; no server may have it open. Flags take
    /// precedence over variables, and STEADFAST_SERVER over STEADFAST_DATA
    #[arg(long, env = "STEADFAST_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Token for a server with closed access. By default the one in ./data/admin.token is sent to
    /// the server whose address is in ./data/address
    #[arg(long, env = "STEADFAST_TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    /// File with the token
    #[arg(long, env = "STEADFAST_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the JSON of the HTTP API
    #[arg(long, env = "STEADFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// The arguments of `doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) examine: Examine,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Adds the flags for certificates and tokens to a verb of an application that asks a server.
pub(crate) fn with_server(verb: Command) -> Command {
    let has = |id: &str| verb.get_arguments().any(|it| it.get_id() == id);
    if !has("server") {
        return verb;
    }
    let asks = AskArgs::augment_args(Command::new("ask"));
    let flags = ["ca", "token", "token_file"].into_iter().filter(|it| !has(it));
    let flags: Vec<Arg> =
        flags.filter_map(|id| asks.get_arguments().find(|it| it.get_id() == id).cloned()).collect();
    verb.args(flags)
}

/// Replaces the program name in the examples of each verb.
pub(crate) fn renamed(command: Command, name: &str) -> Command {
    let help = command.get_after_help().map(|it| it.to_string().replace("steadfast", name));
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    let verbs: Vec<String> = command.get_subcommands().map(|it| it.get_name().into()).collect();
    let rename = |all: Command, verb| all.mut_subcommand(verb, |it| renamed(it, name));
    verbs.into_iter().fold(command, rename)
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| "write address:port, for example 127.0.0.1:8787".into())
}

fn s3_listen(text: &str) -> Result<S3Listen, String> {
    if text == "none" {
        return Ok(S3Listen::Off);
    }
    listen(text)
        .map(S3Listen::At)
        .map_err(|_| "write address:port, for example 127.0.0.1:8788, or none for no S3 API".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn source_of(line: &[&str]) -> Result<Source, String> {
        let matches = CommandLine::command().try_get_matches_from(line).unwrap();
        Source::of(&matches)
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_verb_asks_the_server_unless_it_is_given_a_folder() {
        let folder = Source::Folder("x".into());
        assert_eq!(
            source_of(&["steadfast", "doctor"]),
            Ok(Source::Server { url: SERVER.into(), ca: None, token: None })
        );
        assert_eq!(source_of(&["steadfast", "doctor", "--data", "x"]), Ok(folder));
        let both = ["steadfast", "doctor", "--data", "x", "--server", "http://h"];
        assert!(source_of(&both).is_err());
        let private = ["steadfast", "doctor", "--server", "https://h", "--ca", "ca.pem"];
        let source =
            Source::Server { url: "https://h".into(), ca: Some("ca.pem".into()), token: None };
        assert_eq!(source_of(&private), Ok(source));
    }

    #[test]
    fn a_verb_of_an_application_that_asks_a_server_has_the_flags_of_a_connection() {
        let verb = |flag: &'static str| {
            let verb = with_server(Command::new("compare").arg(Arg::new(flag).long(flag)));
            let command = Command::new("shop").subcommand(verb);
            let line = ["shop", "compare", "--server", "https://h", "--ca", "x", "--token", "t"];
            command.try_get_matches_from(line)
        };
        let matches = verb("server").unwrap();
        let source = Source::server("https://h", matches.subcommand().unwrap().1).unwrap();
        let (ca, token) = (Some("x".into()), Some("t".into()));
        assert_eq!(source, Source::Server { url: "https://h".into(), ca, token });
        assert!(verb("folder").is_err(), "it asks no server");
    }

    #[test]
    fn debug_shows_no_token() {
        let line = ["steadfast", "doctor", "--server", "https://h", "--token", "hush"];
        let parsed = CommandLine::try_parse_from(line).unwrap();
        let shown = format!("{parsed:?} {:?}", source_of(&line).unwrap());
        assert!(shown.contains("https://h") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn an_address_to_listen_on_needs_its_port() {
        assert_eq!(listen("localhost:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert!(listen("127.0.0.1").is_err());
        assert_eq!(s3_listen("none"), Ok(S3Listen::Off));
        assert!(s3_listen("8788").is_err());
    }
}
