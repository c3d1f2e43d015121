//! Certificates of both sides.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The files of a listener with TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Our certificate chain, PEM.
    pub cert: PathBuf,
    /// Our private key, PEM.
    pub key: PathBuf,
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let bad = |error: rustls::pki_types::pem::Error| io::Error::other(format!("{}: {error}", path.display()));
    CertificateDer::pem_file_iter(path).map_err(bad)?.collect::<Result<_, _>>().map_err(bad)
}

/// For a server.
pub(crate) fn acceptor(files: &TlsFiles) -> io::Result<tokio_rustls::TlsAcceptor> {
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| io::Error::other(format!("{}: {error}", files.key.display())))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates(&files.cert)?, key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config).into())
}

/// For a client that trusts what this authority signed.
pub(crate) fn connector(authority: &Path) -> io::Result<tokio_rustls::TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config).into())
}
