//! Credentials: the files that settings name.

use std::fs;
use std::path::PathBuf;

use super::resolve::is_digest;
use super::{Auth, Chosen, ConfigError, Secret, Settings};

#[derive(Debug, Default)]
pub struct Credentials {
    /// `user:password`
    pub digest: Option<Secret>,
    pub tls: Option<TlsText>,
}

/// PEM texts.
pub struct TlsText {
    /// Trusted authorities.
    pub ca: String,
    /// Our certificate and key.
    pub identity: Option<(String, String)>,
}

impl std::fmt::Debug for TlsText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsText").field("mutual", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// Reads all files that settings name.
pub fn credentials(settings: &Settings) -> Result<Credentials, ConfigError> {
    let digest = match &settings.auth {
        None => None,
        Some(Chosen { value: Auth::Digest(secret), .. }) => Some(secret.clone()),
        Some(Chosen { value: Auth::File(path), origin }) => {
            Some(digest(&Chosen { value: path.clone(), origin: origin.clone() })?)
        }
    };
    let tls = match &settings.tls_ca {
        None => None,
        Some(ca) => Some(TlsText {
            ca: pem("zookeeper.tls.ca", ca, "CERTIFICATE")?,
            identity: match (&settings.tls_cert, &settings.tls_key) {
                (Some(cert), Some(key)) => Some((
                    pem("zookeeper.tls.cert", cert, "CERTIFICATE")?,
                    pem("zookeeper.tls.key", key, "PRIVATE KEY")?,
                )),
                _ => None,
            },
        }),
    };
    Ok(Credentials { digest, tls })
}

fn read(key: &'static str, Chosen { value: path, origin }: &Chosen<PathBuf>) -> Result<String, ConfigError> {
    let (path, origin) = (path.clone(), origin.clone());
    fs::read_to_string(&path).map_err(|source| ConfigError::Named { key, origin, path, source })
}

/// Checks the kind of PEM here, where we know which setting named the file.
fn pem(key: &'static str, file: &Chosen<PathBuf>, kind: &str) -> Result<String, ConfigError> {
    let text = read(key, file)?;
    let begins =
        |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----"));
    if text.lines().any(begins) {
        return Ok(text);
    }
    Err(ConfigError::Value {
        key,
        origin: file.origin.clone(),
        why: format!("{} holds no {} in PEM", file.value.display(), kind.to_lowercase()),
        help: "name a PEM file: ca for TLS, cert and key for mutual TLS",
    })
}

fn digest(file: &Chosen<PathBuf>) -> Result<Secret, ConfigError> {
    let key = "zookeeper.auth_file";
    let text = read(key, file)?;
    let digest = text.trim_end_matches(['\r', '\n']);
    if is_digest(digest) && !digest.contains(['\r', '\n']) {
        return Ok(Secret(digest.to_owned()));
    }
    Err(ConfigError::Value {
        key,
        origin: file.origin.clone(),
        why: format!("{} does not hold USER:PASSWORD", file.value.display()),
        help: "write user and password on one line, with a colon between them",
    })
}
