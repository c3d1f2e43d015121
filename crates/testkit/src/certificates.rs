//! Certificates for one test.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

/// A certificate authority, and a folder with a server's files.
#[derive(Debug)]
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug)]
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
    /// Both as PEM.
    pub pem: (String, String),
}

impl Authority {
    /// A new authority, with `ca.pem`, and `cert.pem` and `key.pem` for a server on 127.0.0.1.
    #[expect(clippy::new_without_default, reason = "it makes a directory, which nobody expects of a default")]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let authority = Self { certificate, issuer: Issuer::new(params, key), folder };
        fs::write(authority.file("ca.pem"), authority.certificate.pem()).expect("a file can be written");
        authority.renew_server();
        authority
    }

    /// Path of the file of that name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Writes a new certificate for 127.0.0.1 and its key, and returns the certificate.
    pub fn renew_server(&self) -> CertificateDer<'static> {
        let (certificate, key) = self.sign("server");
        fs::write(self.file("key.pem"), key.serialize_pem()).expect("a file can be written");
        fs::write(self.file("cert.pem"), certificate.pem()).expect("a file can be written");
        certificate.der().clone()
    }

    /// A client of the organisation "Menagerie".
    pub fn identity(&self, name: &str) -> Identity {
        let (certificate, key) = self.sign(name);
        let pem = (certificate.pem(), key.serialize_pem());
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key just made");
        Identity { certificate: certificate.der().clone(), key, pem }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address is a name");
        // Without rcgen's default entries.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Menagerie");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate, key)
    }
}
