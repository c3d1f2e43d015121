//! One exit code for each kind of error of the engines.

use menagerie_kernel::CallError;
use menagerie_queues::QueueError;
use menagerie_slots::SlotsError;

/// When ZooKeeper did not do it.
pub fn call_code(error: &CallError) -> u8 {
    match error {
        CallError::Suspended | CallError::Unknown { .. } | CallError::Expired => 69,
        CallError::NoZnode { .. }
        | CallError::Exists { .. }
        | CallError::BadVersion { .. }
        | CallError::NotEmpty { .. }
        | CallError::Denied { .. }
        | CallError::Closed
        | CallError::Payload { .. }
        | CallError::Refused { .. } => 1,
    }
}

/// When a journal did not do it.
pub fn journal_code(error: &menagerie_journal::JournalError) -> u8 {
    use menagerie_journal::JournalError as E;
    match error {
        E::Unreachable { .. } | E::Closed | E::Unknown(_) => 69,
        E::Damaged(_) | E::DiskFull => 74,
        E::OutOfFiles => 75,
        _ => 1,
    }
}

/// When queues did not do it.
pub fn queues_code(error: &QueueError) -> u8 {
    use menagerie_queues::QueueError as E;
    match error {
        E::NoQueue { .. }
        | E::NoWorker { .. }
        | E::NoPartition { .. }
        | E::Partitions { .. }
        | E::Reserved { .. }
        | E::Topic { .. }
        | E::Key(_) => 2,
        E::Journal(error) => journal_code(error),
        E::Call(error) => call_code(error),
        E::Exists { .. }
        | E::Narrow { .. }
        | E::Ahead { .. }
        | E::NoJournal { .. }
        | E::Transaction(_)
        | E::Lock(_)
        | E::Presence(_)
        | E::Settle(_)
        | E::Cache(_) => 1,
    }
}

/// When slots did not do it.
pub fn slots_code(error: &SlotsError) -> u8 {
    match error {
        SlotsError::NoPool { .. } | SlotsError::NoRoomAtAll => 2,
        SlotsError::Lost { .. } => 73,
        SlotsError::Call(error) => call_code(error),
        SlotsError::OtherMaximum { .. }
        | SlotsError::Conflict { .. }
        | SlotsError::NotAsExpected { .. }
        | SlotsError::InUse { .. }
        | SlotsError::NotHeld { .. }
        | SlotsError::Running { .. }
        | SlotsError::Damaged { .. }
        | SlotsError::Missing { .. }
        | SlotsError::TicketGone { .. }
        | SlotsError::Stuck { .. } => 1,
    }
}
