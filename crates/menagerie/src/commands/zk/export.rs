//! `menagerie zk export FILE`

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use menagerie_kernel::Term;
use menagerie_kernel::transfer::format::Line;
use menagerie_kernel::transfer::{self, ExportError, Exported, Progress, WhenChanged};

use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output;
use crate::progress::Meter;

/// Export all persistent znodes of the namespace to a file, for `menagerie zk import` into another ensemble. Stop the
/// engines first.
#[derive(Debug, Args)]
pub struct Export {
    /// File to write; `-` is stdout. An existing file is replaced only when the export is complete.
    file: PathBuf,
    /// Export even if the namespace changes meanwhile; parts of the export may then be from different times.
    #[arg(long)]
    live: bool,
}

impl Export {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| {
            let (term, namespace) = (client.term(), client.namespace());
            if namespace == "/" {
                return Err(CliError::Usage {
                    what: "the root of the tree is not a namespace".to_owned(),
                    help: "name one with --namespace".to_owned(),
                });
            }
            let exported = if self.file == Path::new("-") {
                let exported = self.write(&term, namespace, io::stdout().lock()).await;
                exported.map_err(from_stdout)?
            } else {
                self.write_file(&term, namespace).await?
            };
            self.report(namespace, exported)
        })
    }

    async fn write(&self, term: &Term, namespace: &str, out: impl Write) -> Result<Exported, ExportError> {
        let when_changed = if self.live { WhenChanged::Tell } else { WhenChanged::Fail };
        let mut out = BufWriter::new(out);
        let mut meter = Meter::new();
        let mut put = |line: &Line| {
            serde_json::to_writer(&mut out, line)?;
            out.write_all(b"\n")
        };
        let mut progress = |at: Progress| meter.show(at.step, at.done, at.total);
        let exported = transfer::export(term, namespace, when_changed, &mut put, &mut progress).await?;
        out.flush().map_err(ExportError::Write)?;
        Ok(exported)
    }

    /// The target file, links resolved. Anything that is not a regular file is refused, because it would be replaced.
    fn target(&self) -> Result<PathBuf, CliError> {
        match fs::canonicalize(&self.file) {
            Ok(target) if target.is_file() => Ok(target),
            Ok(_) => Err(CliError::Usage {
                what: format!("{} is there and is no file", self.file.display()),
                help: "name a file; `-` is stdout".to_owned(),
            }),
            Err(_) => Ok(self.file.clone()),
        }
    }

    /// Writes a partial file and renames it when it is complete.
    async fn write_file(&self, term: &Term, namespace: &str) -> Result<Exported, CliError> {
        let target = self.target()?;
        let mut partial = target.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = create(&partial).map_err(CliError::io(format!("write {}", partial.display())))?;
        let exported = self.write(term, namespace, &file).await;
        let kept = match exported {
            Ok(exported) => keep(&file, &partial, &target)
                .map(|()| exported)
                .map_err(CliError::io(format!("write {}", self.file.display()))),
            Err(error) => Err(cannot_export(error)),
        };
        if kept.is_err() {
            let _ = fs::remove_file(&partial);
        }
        kept
    }

    fn report(&self, namespace: &str, exported: Exported) -> Result<(), CliError> {
        let Exported { znodes, ephemerals, changed, lived_in } = exported;
        if !lived_in {
            eprintln!("{namespace} has no generation: no engine has used it yet. It is exported as it is");
        }
        if ephemerals > 0 {
            eprintln!(
                "{} left out: somebody is at work in {namespace}, and what they write from now on is not in the \
                 export",
                output::count(ephemerals, "ephemeral")
            );
        }
        if changed {
            eprintln!("{namespace} changed meanwhile: parts of the export may be from different times");
        }
        let text = format!("{}: {} of {namespace}\n", self.file.display(), output::count(znodes, "znode"));
        if self.file == Path::new("-") {
            eprint!("{text}");
            return Ok(());
        }
        output::write(&text)
    }
}

fn from_stdout(error: ExportError) -> CliError {
    match error {
        ExportError::Write(source) => output::from_stdout(source),
        error => cannot_export(error),
    }
}

fn cannot_export(error: ExportError) -> CliError {
    cannot("export the namespace")(error)
}

/// Creates it owner-only, because it holds whatever the namespace holds, and new, so that we never write through an
/// existing file or link.
fn create(partial: &Path) -> io::Result<File> {
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)
}

fn keep(file: &File, partial: &Path, target: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(partial, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
