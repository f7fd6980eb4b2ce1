//! Encryption of a connection, and verification of the server.
//!
//! The driver supports neither `verify-full` nor root certificates, so this module reads and
//! removes that part of the URL.

use std::{net::IpAddr, path::Path, sync::Arc};

use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The TLS settings of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TlsSettings {
    mode: Option<String>,
    root: Option<String>,
}

impl TlsSettings {
    /// Removes them from a URL, or from a line of `key=value`.
    pub(super) fn take_from(url: &str) -> (String, Self) {
        let mut tls = Self::default();
        let rest = if url.contains("://") {
            // A password may contain any character except a slash.
            let host = url.find("://").map_or(0, |it| it + 3);
            let path = url[host..].find('/').map_or(host, |it| host + it);
            let host = url[host..path].rfind('@').map_or(host, |it| host + it);
            let Some(mark) = url[host..].find('?') else { return (url.into(), tls) };
            let (before, params) = (&url[..host + mark], &url[host + mark + 1..]);
            let kept: Vec<&str> = params.split('&').filter(|it| !tls.takes(it)).collect();
            let mark = if kept.is_empty() { "" } else { "?" };
            format!("{before}{mark}{}", kept.join("&"))
        } else {
            let kept: Vec<&str> = url.split_whitespace().filter(|it| !tls.takes(it)).collect();
            kept.join(" ")
        };
        (rest, tls)
    }

    fn takes(&mut self, param: &str) -> bool {
        let Some((key, value)) = param.split_once('=') else { return false };
        let place = match key {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            _ => return false,
        };
        let value = percent_decode_str(value.trim_matches('\'')).decode_utf8_lossy();
        *place = Some(value.into_owned());
        true
    }

    /// The connector to the database of `config`; `None` if the connection is plain.
    pub(super) fn connector(
        &self,
        config: &mut Config,
    ) -> Result<Option<MakeRustlsConnect>, String> {
        let is_plain = match self.mode.as_deref() {
            // PostgreSQL does not encrypt sockets.
            _ if is_socket(config) => true,
            None => is_local(config),
            Some("disable") => true,
            // Encryption without verification is not safe, so all three mean the safe one.
            Some("require" | "verify-ca" | "verify-full") => false,
            Some(other @ ("allow" | "prefer")) => {
                return Err(format!(
                    "sslmode={other} may send everything in the clear; write sslmode=verify-full, \
                     or sslmode=disable if the network is trusted"
                ));
            }
            Some(other) => {
                return Err(format!(
                    "sslmode={other} is unknown; write sslmode=verify-full or sslmode=disable"
                ));
            }
        };
        if is_plain {
            config.ssl_mode(SslMode::Disable);
            return Ok(None);
        }
        config.ssl_mode(SslMode::Require);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        Ok(Some(MakeRustlsConnect::new(tls)))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match self.root.as_deref() {
            None | Some("system") => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err("this machine has no root certificates; \
                                name some with sslrootcert=FILE"
                        .into());
                }
            }
            Some(file) => {
                let refused = |error: String| format!("sslrootcert={file} cannot be used: {error}");
                let found = CertificateDer::pem_file_iter(Path::new(file));
                for one in found.map_err(|error| refused(error.to_string()))? {
                    let one = one.map_err(|error| refused(error.to_string()))?;
                    roots.add(one).map_err(|error| refused(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(refused("there is no certificate in it".into()));
                }
            }
        }
        Ok(roots)
    }
}

fn is_socket(config: &Config) -> bool {
    let hosts = config.get_hosts();
    let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
    config.get_hostaddrs().is_empty() && !hosts.is_empty() && !hosts.iter().any(is_tcp)
}

/// Whether the connection stays on this machine.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn mode(url: &str) -> Result<SslMode, String> {
        let (rest, tls) = TlsSettings::take_from(url);
        let mut config = Config::from_str(&rest).unwrap();
        tls.connector(&mut config).map(|_| config.get_ssl_mode())
    }

    #[test]
    fn only_sockets_and_loopback_are_plain_unless_the_url_says_so() {
        let plain = [
            "postgres:///d?host=/run/postgresql",
            "postgres:///d?host=/run/postgresql&sslmode=require",
            "postgres://me@localhost/d",
            "postgres://127.0.0.2:5433/d",
            "postgres://me@[::1]/d",
            "postgres://db.example.com/d?sslmode=disable",
            "host=db.example.com sslmode=disable dbname=d",
        ];
        for url in plain {
            assert_eq!(mode(url), Ok(SslMode::Disable), "{url}");
        }
        let encrypted = [
            "postgres://db.example.com/d",
            "postgres://10.0.0.1/d",
            "postgres://localhost,db.example.com/d",
            "host=localhost hostaddr=10.0.0.1",
            "postgres://localhost/d?sslmode=verify-full",
            "postgres://localhost/d?sslmode=require",
        ];
        for url in encrypted {
            // A machine without root certificates returns an error.
            match mode(url) {
                Ok(mode) => assert_eq!(mode, SslMode::Require, "{url}"),
                Err(error) => assert!(error.contains("no root certificates"), "{error}"),
            }
        }
    }

    #[test]
    fn modes_that_may_be_plain_and_unknown_ones_are_refused_with_a_way_out() {
        for wrong in ["prefer", "allow", "verify-fully"] {
            let error = mode(&format!("postgres://db.example.com/d?sslmode={wrong}")).unwrap_err();
            assert!(error.starts_with(&format!("sslmode={wrong} ")), "{error}");
            assert!(error.contains("sslmode=verify-full"), "{error}");
        }
        let url = "postgres://h/d?sslrootcert=/nowhere/roots.pem&sslmode=verify-full";
        let error = mode(url).unwrap_err();
        assert!(error.starts_with("sslrootcert=/nowhere/roots.pem cannot be used"), "{error}");
    }

    #[test]
    fn parameters_that_the_driver_does_not_support_are_removed_and_others_stay() {
        let taken = |url| TlsSettings::take_from(url).0;
        assert_eq!(taken("postgres://h/d"), "postgres://h/d");
        assert_eq!(taken("postgres://h/d?sslmode=verify-full"), "postgres://h/d");
        let url = "postgres://h/d?user=me&sslmode=x&sslrootcert=%2Fetc%2Froots&port=1";
        let (rest, tls) = TlsSettings::take_from(url);
        assert_eq!(rest, "postgres://h/d?user=me&port=1");
        assert_eq!(tls.root.as_deref(), Some("/etc/roots"));
        assert_eq!(taken("host=h sslmode=disable user=me"), "host=h user=me");
        let odd = "postgres://me:a?b&sslmode=disable&c@h/d?port=1";
        assert_eq!(
            TlsSettings::take_from(odd),
            (odd.into(), TlsSettings::default()),
            "that is a password"
        );
    }
}
