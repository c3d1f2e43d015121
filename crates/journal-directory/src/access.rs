//! By what journals and we know each other: tokens and authorities.

use std::path::PathBuf;

use menagerie_journal::Token;
use menagerie_kernel::local_secret;

/// By what journals and we know each other. All of it is said on this machine: whoever can write ZooKeeper must neither choose
/// which file we open nor whom we believe.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where the journals' tokens are.
    pub tokens: TokenFiles,
    /// Whom to trust, PEM. With this, journals that do not speak TLS are refused.
    pub authority: Option<PathBuf>,
}

/// Files with tokens of journals, one on each line. A journal shows by itself which of them is its own.
#[derive(Debug, Clone)]
pub enum TokenFiles {
    /// This one, which must be readable.
    Named(PathBuf),
    /// Journals of this machine: those of the same user tell us theirs; else as many of these files as are there and may be
    /// read.
    Local(Vec<PathBuf>),
}

impl Default for TokenFiles {
    fn default() -> Self {
        Self::Local(Vec::new())
    }
}

impl TokenFiles {
    /// The tokens for the journal of this folder, or why there are none. Read whenever a journal was started: it may have a
    /// new one.
    pub(crate) fn read(&self, folder: &str) -> Result<Vec<Token>, String> {
        match self {
            Self::Named(file) => Token::read_all(file)
                .map_err(|error| format!("the token file {} cannot be used: {error}", file.display())),
            Self::Local(files) => {
                let mut reasons = Vec::new();
                let told = local_secret::ask(&local_secret::Owner::journal(folder));
                let mut tokens: Vec<Token> = told.into_iter().map(Token::new).collect();
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
