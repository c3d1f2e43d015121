//! Names of queues, partitions and workers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quote::{Component, Quoted, unquote};

/// As in Queuey, whose clients know no longer names.
pub const QUEUE_NAME_CHARS_MAX: usize = 50;

/// Most bytes of a queue's topic: the application, the name and `.failed`.
pub const QUEUE_NAME_BYTES_MAX: usize = 200;

/// As in Queuey. More make lists that do not fit a screen, and locks that nobody needs.
pub const PARTITIONS_MAX: u16 = 200;

/// The suffix of queues for messages that failed for good.
const FAILED: &str = ".failed";

/// The application of names without one, as on the command line.
const DEFAULT_APPLICATION: &str = "default";

/// Why a text names no queue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueNameError {
    /// The name is empty.
    #[error("a queue's name must not be empty")]
    Empty,
    /// The name is too long.
    #[error("a queue's name must not be longer than {QUEUE_NAME_CHARS_MAX} characters, and this one has {0}")]
    Long(usize),
    /// It has few enough characters, but too many bytes.
    #[error(
        "a queue's name must not be longer than {max} bytes with its application and {FAILED}, and this one has {0}",
        max = QUEUE_NAME_BYTES_MAX
    )]
    Bytes(usize),
    /// It would be another path in the tree.
    #[error("a queue's name must not be `.` or `..`")]
    Dots,
    /// It contains a character that is not allowed.
    #[error("a queue's name must not contain {0:?}")]
    Character(char),
}

/// Why a text names no partition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PartitionNameError {
    /// There is no number at its end.
    #[error("a partition is named `<queue>-<number>`, with a number from 1 to {PARTITIONS_MAX}")]
    Number,
    /// The part before the number is no queue name.
    #[error(transparent)]
    Queue(#[from] QueueNameError),
}

/// A queue of an application. Cheap to clone: workers name it with each message.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^([^:/\s\u0000-\u001f\u007f-\u009f]+:)?[^:/\s\u0000-\u001f\u007f-\u009f]+$"))]
pub struct QueueName(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    /// `None` for those of the command line.
    application: Option<String>,
    name: String,
}

impl QueueName {
    /// A queue of this application.
    pub fn new(application: &str, name: &str) -> Result<Self, QueueNameError> {
        check(application)?;
        check(name)?;
        let application = (application != DEFAULT_APPLICATION).then(|| application.to_owned());
        let queue = Self::of(application, name.to_owned());
        let longest = queue.failed().as_ref().unwrap_or(&queue).to_string().len();
        if longest > QUEUE_NAME_BYTES_MAX {
            return Err(QueueNameError::Bytes(longest));
        }
        Ok(queue)
    }

    fn of(application: Option<String>, name: String) -> Self {
        Self(Arc::new(Parts { application, name }))
    }

    /// The application that owns it.
    pub fn application(&self) -> &str {
        self.0.application.as_deref().unwrap_or(DEFAULT_APPLICATION)
    }

    /// Its name within the application.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The queue for its messages that failed for good; `None` if it is such a queue itself.
    #[must_use]
    pub fn failed(&self) -> Option<Self> {
        let name = (!self.name().ends_with(FAILED)).then(|| format!("{}{FAILED}", self.name()))?;
        Some(Self::of(self.0.application.clone(), name))
    }

    /// The queue whose failed messages this one takes; `None` if it is an ordinary queue.
    #[must_use]
    pub fn failures_of(&self) -> Option<Self> {
        let name = self.name().strip_suffix(FAILED).filter(|name| !name.is_empty())?;
        Some(Self::of(self.0.application.clone(), name.to_owned()))
    }

    /// One of its partitions.
    #[must_use]
    pub fn partition(&self, number: u16) -> PartitionName {
        PartitionName { queue: self.clone(), number }
    }
}

/// `:` separates the application from the name; the others are unsafe in paths, log lines and shells.
fn check(name: &str) -> Result<(), QueueNameError> {
    let own = name.strip_suffix(FAILED).unwrap_or(name);
    if own.is_empty() {
        return Err(QueueNameError::Empty);
    }
    let length = own.chars().count();
    if length > QUEUE_NAME_CHARS_MAX {
        return Err(QueueNameError::Long(length));
    }
    if matches!(name, "." | "..") {
        return Err(QueueNameError::Dots);
    }
    match name.chars().find(|c| matches!(c, '/' | ':' | ',') || c.is_control() || c.is_whitespace()) {
        Some(c) => Err(QueueNameError::Character(c)),
        None => Ok(()),
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(application) = &self.0.application {
            write!(f, "{application}:")?;
        }
        f.write_str(self.name())
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Ord for QueueName {
    fn cmp(&self, other: &Self) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for QueueName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for QueueName {
    type Err = QueueNameError;

    fn from_str(text: &str) -> Result<Self, QueueNameError> {
        match text.split_once(':') {
            Some((application, name)) => Self::new(application, name),
            None => Self::new(DEFAULT_APPLICATION, text),
        }
    }
}

impl Component for QueueName {
    fn write(&self, path: &mut String) {
        Quoted(&self.to_string()).write(path);
    }
}

/// One partition of a queue; they count from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^([^:/\s\u0000-\u001f\u007f-\u009f]+:)?[^:/\s\u0000-\u001f\u007f-\u009f]+-[1-9][0-9]{0,2}$"))]
pub struct PartitionName {
    queue: QueueName,
    number: u16,
}

impl PartitionName {
    /// The queue that it belongs to.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Its number, from 1.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Parses the name of a znode.
    pub fn of_znode(name: &str) -> Option<Self> {
        unquote(name)?.parse().ok()
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.queue, self.number)
    }
}

impl FromStr for PartitionName {
    type Err = PartitionNameError;

    /// Splits at the last dash: queues may have dashes in their names.
    fn from_str(text: &str) -> Result<Self, PartitionNameError> {
        let (queue, digits) = text.rsplit_once('-').ok_or(PartitionNameError::Number)?;
        let number = digits.parse().ok().filter(|number| (1..=PARTITIONS_MAX).contains(number));
        // `mail-01` and `mail-+1` are not names of ours.
        let number =
            number.filter(|number| number.to_string() == digits).ok_or(PartitionNameError::Number)?;
        Ok(Self { queue: queue.parse()?, number })
    }
}

macro_rules! text {
    ($type:ty, $error:ty) => {
        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.to_string()
            }
        }
    };
}
text!(QueueName, QueueNameError);
text!(PartitionName, PartitionNameError);

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(text: &str) -> QueueName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_without_application_belongs_to_the_default_one() {
        assert_eq!(queue("mail"), queue("default:mail"));
        assert_eq!(queue("default:mail").to_string(), "mail");
        assert_eq!((queue("notes:mail").application(), queue("notes:mail").name()), ("notes", "mail"));
    }

    #[test]
    fn partitions_of_queues_with_dashes_are_told_apart() {
        let partition: PartitionName = "a-b-12".parse().unwrap();
        assert_eq!((partition.queue(), partition.number()), (&queue("a-b"), 12));
        for text in ["mail", "mail-", "mail-0", "mail-01", "mail-201", "mail-x", "-1"] {
            assert!(text.parse::<PartitionName>().is_err(), "{text}");
        }
    }

    #[test]
    fn hostile_names_are_refused_with_the_reason() {
        for (text, why) in [
            ("", QueueNameError::Empty),
            ("..", QueueNameError::Dots),
            ("a/b", QueueNameError::Character('/')),
            ("a b", QueueNameError::Character(' ')),
            ("a:b:c", QueueNameError::Character(':')),
            (".failed", QueueNameError::Empty),
        ] {
            assert_eq!(text.parse::<QueueName>(), Err(why), "{text:?}");
        }
        assert_eq!("x".repeat(51).parse::<QueueName>(), Err(QueueNameError::Long(51)));
    }

    /// Otherwise the queue could exist without room for its failed messages.
    #[test]
    fn bytes_count_with_those_of_the_place_for_failures() {
        let wide = "\u{1f98a}".repeat(48);
        assert_eq!(queue(&wide).failed().unwrap().to_string().len(), 199);
        let wider = format!("{wide}\u{1f98a}");
        assert_eq!(wider.parse::<QueueName>(), Err(QueueNameError::Bytes(203)));
        assert_eq!(format!("{wider}.failed").parse::<QueueName>(), Err(QueueNameError::Bytes(203)));
        assert_eq!(format!("ab:{wide}").parse::<QueueName>(), Err(QueueNameError::Bytes(202)));
    }

    #[test]
    fn the_longest_name_has_a_place_for_its_failures() {
        let longest = queue(&"x".repeat(50));
        let failed = longest.failed().unwrap();
        assert_eq!(queue(&failed.to_string()), failed);
        assert_eq!((failed.failed(), failed.failures_of()), (None, Some(longest)));
    }
}
