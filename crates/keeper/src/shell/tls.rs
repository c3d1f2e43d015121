//! Certificates: ours, and those that clients present.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use menagerie_wire::Id;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use thiserror::Error;
use tracing::{info, warn};
use x509_cert::der::Decode as _;

use crate::config::TlsFiles;

/// How often the files are checked at most, when clients connect.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Why TLS cannot be offered.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum TlsError {
    /// A file cannot be read, or holds no certificate or key.
    #[error("cannot read {what} from {path}")]
    Pem {
        /// What the file should hold.
        what: &'static str,
        path: String,
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not match, or the like.
    #[error("the certificates cannot be used")]
    Rustls(#[from] rustls::Error),
    /// The authority's certificates cannot be used to verify clients.
    #[error("the certificate authority cannot be used")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// Creates TLS sessions, with certificates that are reloaded when their files change.
pub struct TlsListener {
    files: TlsFiles,
    config: Arc<ServerConfig>,
    stamps: Stamps,
    checked: Instant,
}

type Stamps = Vec<Option<SystemTime>>;

impl TlsListener {
    /// Reads the files.
    pub fn new(files: TlsFiles) -> Result<Self, TlsError> {
        let stamps = stamps(&files);
        Ok(Self { config: load(&files)?, files, stamps, checked: Instant::now() })
    }

    /// A session for a client that has just connected.
    pub fn session(&mut self) -> Result<ServerConnection, rustls::Error> {
        self.reload_if_changed();
        ServerConnection::new(self.config.clone())
    }

    /// The current TLS configuration, for callers that create sessions themselves.
    pub fn config(&mut self) -> Arc<ServerConfig> {
        self.reload_if_changed();
        self.config.clone()
    }

    fn reload_if_changed(&mut self) {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.checked = Instant::now();
        let stamps = stamps(&self.files);
        if stamps == self.stamps {
            return;
        }
        self.stamps = stamps;
        match load(&self.files) {
            Ok(config) => {
                info!("certificates reloaded");
                self.config = config;
            }
            // Half-written files are the usual reason; the next change of their timestamp triggers another attempt.
            Err(error) => warn!(%error, "cannot load the new certificates; the old ones stay in use"),
        }
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
    let stamp = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    vec![stamp(&files.cert), stamp(&files.key), files.ca.as_deref().and_then(stamp)]
}

fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &files.ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("the certificate authority", path)? {
                roots.add(certificate)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(pem("the private key", &files.key))?;
    Ok(Arc::new(builder.with_single_cert(certificates("the certificate", &files.cert)?, key)?))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(pem(what, path))
}

fn pem(what: &'static str, path: &Path) -> impl FnOnce(rustls::pki_types::pem::Error) -> TlsError {
    let path = path.display().to_string();
    move |source| TlsError::Pem { what, path, source }
}

/// A client's certificate as an identity: scheme `x509`, named by its subject as RFC 2253 writes it, which is what
/// access lists of other servers hold.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<Id> {
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    Some(Id::new("x509", &certificate.tbs_certificate.subject.to_string()))
}
