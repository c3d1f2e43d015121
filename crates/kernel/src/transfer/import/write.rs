//! Writing the records of an export.

use menagerie_znodes::{Kind, lookup};

use super::{Target, UNKNOWN_MAX};
use crate::error::CallError;
use crate::session::{client_acls, create_mode};
use crate::transfer::format::Record;
use crate::transfer::{Progress, counters, full};

impl Target<'_> {
    /// Writes a batch of records: together if none of them exists, else one by one.
    pub async fn write(&self, batch: Vec<Record>) -> Result<(), CallError> {
        if self.write_together(&batch).await.is_ok() {
            return Ok(());
        }
        for record in &batch {
            self.write_one(record).await?;
        }
        Ok(())
    }

    async fn write_together(&self, batch: &[Record]) -> Result<(), CallError> {
        let parts: Vec<_> = batch
            .iter()
            .map(|record| {
                let acls = client_acls(&record.access);
                (full(self.namespace, &record.path), record.data.clone(), acls, kind(&record.path))
            })
            .collect();
        self.term
            .write(self.namespace, None, |client, _| async move {
                let mut writer = client.new_multi_writer();
                for (path, data, acls, kind) in &parts {
                    let mode = create_mode(*kind).with_acls(zookeeper_client::Acls::new(acls));
                    writer.add_create(path, data, &mode)?;
                }
                match writer.commit().await {
                    Ok(_) => Ok(()),
                    Err(
                        zookeeper_client::MultiWriteError::OperationFailed { source, .. }
                        | zookeeper_client::MultiWriteError::RequestFailed { source },
                    ) => Err(source),
                }
            })
            .await
    }

    /// Makes one znode match the record, whatever an earlier attempt has left.
    pub async fn write_one(&self, record: &Record) -> Result<(), CallError> {
        let path = full(self.namespace, &record.path);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let created =
                self.term.create_with_access(&path, &record.data, kind(&record.path), &record.access).await;
            match created {
                Ok(_) => return Ok(()),
                Err(CallError::Exists { .. } | CallError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
            match self.correct(&path, record).await {
                Err(CallError::NoZnode { .. } | CallError::Unknown { .. }) if attempts < UNKNOWN_MAX => {}
                corrected => return corrected,
            }
        }
    }

    async fn correct(&self, path: &str, record: &Record) -> Result<(), CallError> {
        let (data, _) = self.term.get(path).await?;
        if data != record.data {
            self.term.set(path, &record.data, None).await?;
        }
        let (access, _) = self.term.access(path).await?;
        if access != record.access {
            self.term.set_access(path, &record.access, None).await?;
        }
        Ok(())
    }

    pub async fn raise(
        &self,
        targets: Vec<(String, u32)>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), CallError> {
        let mut total = 0;
        for (path, target) in &targets {
            total += u64::from(counters::missing(self.term, &full(self.namespace, path), *target).await?);
        }
        let mut done = 0;
        for (path, target) in &targets {
            let raised = |by: u32| {
                done += u64::from(by);
                progress(Progress { step: "counted", done, total: Some(total) });
            };
            counters::raise(self.term, &full(self.namespace, path), *target, raised).await?;
        }
        Ok(())
    }
}

/// The kind of a znode, which clients cannot see, from the map.
fn kind(path: &str) -> Kind {
    match lookup::find(path) {
        Some((_, entry)) if entry.kind == Kind::Container => Kind::Container,
        _ => Kind::Persistent,
    }
}
