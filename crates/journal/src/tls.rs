//! TLS for both sides.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

/// The files of a listener with TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Our certificate chain, PEM.
    pub cert: PathBuf,
    /// Our private key, PEM.
    pub key: PathBuf,
}

/// TLS 1.3 only: both ends are ours, and in older versions exported keys identify a connection only under conditions.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let bad = |error: rustls::pki_types::pem::Error| io::Error::other(format!("{}: {error}", path.display()));
    CertificateDer::pem_file_iter(path).map_err(bad)?.collect::<Result<_, _>>().map_err(bad)
}

/// For a server.
pub(crate) fn acceptor(files: &TlsFiles) -> io::Result<tokio_rustls::TlsAcceptor> {
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| io::Error::other(format!("{}: {error}", files.key.display())))?;
    let config = ServerConfig::builder_with_protocol_versions(VERSIONS)
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
    let config = ClientConfig::builder_with_protocol_versions(VERSIONS)
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// For a client that sends no secrets: it accepts any certificate.
pub(crate) fn undemanding() -> io::Result<tokio_rustls::TlsConnector> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// Accepts any certificate, if the server proves that it has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
