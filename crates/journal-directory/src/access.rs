//! How we and journals authenticate each other: tokens and authorities.

use std::path::PathBuf;

use menagerie_journal::Token;
use menagerie_kernel::local_secret;

/// Tokens and the authority for connections to journals. Configured on this machine only: whoever can write ZooKeeper
/// must choose neither which file we open nor whom we trust.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The journals' tokens.
    pub tokens: TokenFiles,
    /// Certificates of the authority, PEM. If set, journals without TLS are refused.
    pub authority: Option<PathBuf>,
}

/// Files with tokens of journals, one per line. The handshake shows which of them is a journal's own.
#[derive(Debug, Clone)]
pub enum TokenFiles {
    /// This file, which must be readable.
    Named(PathBuf),
    /// Journals on this machine: those of the same user tell us their token; besides, those of these files that we can
    /// read.
    Local(Vec<PathBuf>),
}

impl Default for TokenFiles {
    fn default() -> Self {
        Self::Local(Vec::new())
    }
}

impl TokenFiles {
    /// The tokens for the journal of this folder, or why there are none. Read again after every start of a journal,
    /// which may have a new one.
    pub(crate) fn read(&self, folder: &str) -> Result<Vec<Token>, String> {
        match self {
            Self::Named(file) => Token::read_all(file)
                .map_err(|error| format!("the token file {} cannot be used: {error}", file.display())),
            Self::Local(files) => {
                let mut reasons = Vec::new();
                let local = local_secret::ask(&local_secret::Owner::journal(folder));
                let mut tokens: Vec<Token> = local.into_iter().map(Token::new).collect();
                for file in files {
                    match Token::read_all(file) {
                        Ok(found) => tokens.extend(found),
                        Err(error) => reasons.push(format!("{}: {error}", file.display())),
                    }
                }
                if tokens.is_empty() {
                    return Err(format!(
                        "we have no token for it ({}); name a copy of its token file with --journal-token-file",
                        reasons.join("; ")
                    ));
                }
                Ok(tokens)
            }
        }
    }
}
