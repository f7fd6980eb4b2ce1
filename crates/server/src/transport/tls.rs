//! The certificate of the server, which is read again when its files change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use steadfast_store::{Clock, Timestamp};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
};
use x509_cert::{Certificate, der::Decode};

use crate::failure::Failure;

/// Interval of reads of the files.
const RELOAD_PERIOD: Duration = Duration::from_secs(1);

/// The contents of both files, or why they cannot be read.
type Files = Result<(Vec<u8>, Vec<u8>), String>;

/// A certificate with its key.
pub(super) struct Tls {
    paths: Arc<(PathBuf, PathBuf)>,
    /// The contents at the start.
    loaded: Files,
    current: RwLock<Pair>,
}

/// A certificate that can be used.
#[derive(Clone)]
struct Pair {
    config: Arc<ServerConfig>,
    /// When the first certificate of the chain expires, in milliseconds.
    expires_at: Option<Timestamp>,
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(cert: &Path, key: &Path) -> Result<Self, Failure> {
        let paths = Arc::new((cert.to_owned(), key.to_owned()));
        let loaded = read(&paths);
        let current = RwLock::new(pair(&paths, &loaded).map_err(Failure::new)?);
        Ok(Self { paths, loaded, current })
    }

    /// The settings for the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current.read().config.clone()
    }

    /// When the certificate expires, if it says so.
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.current.read().expires_at
    }

    /// Uses changed files for new connections. Contents are compared, not times: a change within
    /// the resolution of a time would be missed. A broken pair is logged once.
    pub(super) async fn watch(&self, clock: &dyn Clock) {
        let mut tried = self.loaded.clone();
        let mut last = tried.clone();
        loop {
            clock.sleep(RELOAD_PERIOD).await;
            let paths = self.paths.clone();
            let found = tokio::task::spawn_blocking(move || read(&paths)).await;
            let found = found.unwrap_or_else(|error| Err(error.to_string()));
            // The two files are replaced one after the other: wait until both stay as they are.
            if found == last && found != tried {
                self.replace(&found);
                tried.clone_from(&found);
            }
            last = found;
        }
    }

    fn replace(&self, found: &Files) {
        let cert = self.paths.0.display();
        match pair(&self.paths, found) {
            Ok(pair) => {
                *self.current.write() = pair;
                tracing::info!(%cert, "new connections use the changed certificate");
            }
            Err(error) => {
                tracing::error!(error, "changed certificate not used; the previous one stays");
            }
        }
    }
}

fn read((cert, key): &(PathBuf, PathBuf)) -> Files {
    let read = |flag: &str, path: &Path| {
        std::fs::read(path).map_err(|error| {
            format!("{flag} {} cannot be read: {error}; name a file in PEM", path.display())
        })
    };
    Ok((read("--tls-cert", cert)?, read("--tls-key", key)?))
}

/// Builds the settings, or says which file is wrong and what it must contain.
fn pair((cert, key): &(PathBuf, PathBuf), files: &Files) -> Result<Pair, String> {
    let (certificates, private_key) = files.as_ref().map_err(Clone::clone)?;
    let (cert, key) = (cert.display(), key.display());
    let chain: Result<Vec<CertificateDer<'static>>, pem::Error> =
        CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(|error| format!("--tls-cert {cert} is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err(format!(
            "--tls-cert {cert} has no certificate; it must contain the chain in PEM, which begins \
             with -----BEGIN CERTIFICATE-----"
        ));
    }
    let expires_at = chain.iter().filter_map(|it| expiry(it)).min();
    let private_key = PrivateKeyDer::from_pem_slice(private_key).map_err(|_| {
        format!(
            "--tls-key {key} has no private key; it must contain one in PEM without a passphrase \
             (`openssl pkey` removes it)"
        )
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|it| it.with_no_client_auth().with_single_cert(chain, private_key))
        .map_err(|error| {
            format!(
                "--tls-cert {cert} and --tls-key {key} are not a pair that can be used: {error}; \
                 name a certificate and the key that it was issued for"
            )
        })?;
    // The accept loop speaks nothing else.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Pair { config: Arc::new(config), expires_at })
}

fn expiry(certificate: &[u8]) -> Option<Timestamp> {
    let parsed = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let millis = parsed.validity.not_after.to_unix_duration().as_millis();
    Some(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pair_leaves_the_previous_one_in_use() {
        let pair = || {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(2030, 1, 2);
            let cert = params.self_signed(&key).unwrap().pem();
            (cert.into_bytes(), key.serialize_pem().into_bytes())
        };
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let (first, second) = (pair(), pair());
        std::fs::write(&cert, &first.0).unwrap();
        std::fs::write(&key, &first.1).unwrap();
        let Ok(tls) = Tls::load(&cert, &key) else { panic!("the pair fits") };
        assert_eq!(tls.expires_at(), Some(Timestamp(1_893_542_400_000)), "2030-01-02");
        let before = tls.config();
        tls.replace(&Ok((second.0.clone(), first.1.clone())));
        tls.replace(&Ok((Vec::new(), Vec::new())));
        tls.replace(&Err("gone".into()));
        assert!(Arc::ptr_eq(&before, &tls.config()));
        tls.replace(&Ok(second));
        assert!(!Arc::ptr_eq(&before, &tls.config()));
    }
}
