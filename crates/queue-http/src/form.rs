//! Parameters of queries, forms and headers.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_journal::{MessageId, Order};
use menagerie_queues::MessageUuid;
use menagerie_znodes::queues::{Consistency, PARTITIONS_MAX, Visibility};
use percent_encoding::percent_decode;

/// Longest time to live of a message: 2^25 seconds.
pub const TTL_SECONDS_MAX: u64 = 1 << 25;
/// Default time to live of a message: three days.
pub const TTL_SECONDS_DEFAULT: u64 = 259_200;
/// Most messages per partition in one reply.
pub const LIMIT_MAX: u64 = 1_000;
/// Longest long poll; more is refused as a mistake.
pub const WAIT_SECONDS_MAX: f64 = 60.0;

/// Why a request is refused: a reason per field, worded as Queuey words it.
pub type Reasons = BTreeMap<String, String>;

/// The parameters we read; others are dropped while parsing.
const NAMES: [&str; 13] = [
    "queue_name",
    "partitions",
    "type",
    "consistency",
    "principles",
    "limit",
    "offset",
    "details",
    "include_count",
    "after",
    "since",
    "order",
    "wait",
];

/// Parameters by name; the last one of a name wins.
#[derive(Debug, Clone, Default)]
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// Parses `a=1&b=2`. Refuses what is not UTF-8: replacing bytes would turn one queue's name into another's.
    pub fn parse(text: &[u8]) -> Result<Self, Reasons> {
        for part in text.split(|byte| *byte == b'&') {
            if percent_decode(part).decode_utf8().is_err() {
                let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
                let name = percent_decode(name).decode_utf8_lossy().into_owned();
                return Err(Reasons::from([(name, "it is not UTF-8".to_owned())]));
            }
        }
        let known = form_urlencoded::parse(text).filter(|(name, _)| NAMES.contains(&name.as_ref()));
        Ok(Self(known.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }

    /// The value of a parameter; an empty one counts as missing.
    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A flag: any value but `false` and `0` is true.
    fn flag(&self, name: &str) -> bool {
        self.value(name).is_some_and(|word| !matches!(word.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

/// Parses an integer between `min` and `max`.
pub fn integer(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let text = text.trim();
    let number: i128 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    match u64::try_from(number) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        Ok(number) if number > max => Err(format!("{number} is greater than maximum value {max}")),
        _ if number > i128::from(max) => Err(format!("{number} is greater than maximum value {max}")),
        _ => Err(format!("{number} is less than minimum value {min}")),
    }
}

/// Collects everything wrong with a request, so that one reply reports it all.
#[derive(Debug, Default)]
pub struct Problems(Reasons);

impl Problems {
    /// Passes a valid value through; records the reason otherwise.
    pub fn check<T>(&mut self, field: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|reason| self.0.insert(field.to_owned(), reason)).ok()
    }

    /// The value, if nothing was wrong.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Reasons> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }

    fn optional<T>(
        &mut self,
        form: &Form,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        form.value(field).and_then(|text| self.check(field, parse(text)))
    }
}

/// Settings for a new queue, or changes to an existing one. `None` keeps what is there, or takes the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueForm {
    /// Name of the queue; random if `None`.
    pub name: Option<String>,
    /// Number of partitions; can only grow.
    pub partitions: Option<u16>,
    /// Whether anonymous callers may read.
    pub visibility: Option<Visibility>,
    /// Stored and returned, without effect: Queuey's clients send it.
    pub consistency: Option<Consistency>,
    /// Who may read and delete, as the client wrote it.
    pub principles: Option<String>,
}

impl QueueForm {
    /// Validates a form.
    pub fn parse(form: &Form) -> Result<Self, Reasons> {
        let mut problems = Problems::default();
        let parsed = Self {
            name: form.value("queue_name").map(str::to_owned),
            partitions: problems.optional(form, "partitions", |text| {
                integer(text, 1, PARTITIONS_MAX.into())
                    .and_then(|n| u16::try_from(n).map_err(|e| e.to_string()))
            }),
            visibility: problems.optional(form, "type", |text| match text {
                "user" => Ok(Visibility::User),
                "public" => Ok(Visibility::Public),
                _ => Err(format!("\"{text}\" is not one of user, public")),
            }),
            consistency: problems.optional(form, "consistency", |text| match text {
                "weak" => Ok(Consistency::Weak),
                "strong" => Ok(Consistency::Strong),
                "very_strong" => Ok(Consistency::VeryStrong),
                _ => Err(format!("\"{text}\" is not one of weak, strong, very_strong")),
            }),
            principles: problems
                .optional(form, "principles", |text| principles(text).map(|_| text.to_owned())),
        };
        problems.finish(Some(parsed))
    }
}

/// Parses a comma-separated list of `app:<name>` and `bid:<address>`.
pub fn principles(text: &str) -> Result<Vec<String>, String> {
    let wrong = |one: &str| format!("\"{one}\" is not a principle, such as app:notes or bid:who@example.org");
    let word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-.+".contains(c));
    let parse = |one: &str| {
        let valid = match one.split_once(':') {
            Some(("app", name)) => word(name),
            Some(("bid", address)) => address
                .split_once('@')
                .is_some_and(|(who, host)| word(who) && word(host) && host.contains('.')),
            _ => false,
        };
        if valid { Ok(one.to_owned()) } else { Err(wrong(one)) }
    };
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(parse).collect()
}

/// Which queues to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListForm {
    /// Most queues to list.
    pub limit: Option<u64>,
    /// First name to list.
    pub offset: Option<String>,
    /// Include the queues' settings.
    pub details: bool,
    /// Include message counts; implies `details`.
    pub include_count: bool,
}

impl ListForm {
    /// Validates a query.
    pub fn parse(form: &Form) -> Result<Self, Reasons> {
        let mut problems = Problems::default();
        let parsed = Self {
            limit: problems.optional(form, "limit", |text| integer(text, 0, u64::MAX)),
            offset: form.value("offset").map(str::to_owned),
            details: form.flag("details") || form.flag("include_count"),
            include_count: form.flag("include_count"),
        };
        problems.finish(Some(parsed))
    }
}

/// Which messages to read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadForm {
    /// Only messages after this one, exclusive.
    pub after: Option<MessageId>,
    /// Only messages from this one on, inclusive.
    pub since: Option<MessageId>,
    /// The id that one of them names, unless it is a time.
    pub marker: Option<MessageUuid>,
    /// Most messages per partition.
    pub limit: Option<u64>,
    /// Oldest or newest first.
    pub order: Order,
    /// Partitions to read, in this order.
    pub partitions: Vec<u64>,
    /// Long poll: how long to wait while there are no messages.
    pub wait: Duration,
}

impl ReadForm {
    /// Validates a query.
    pub fn parse(form: &Form) -> Result<Self, Reasons> {
        let mut problems = Problems::default();
        let id = |text: &str| text.parse::<MessageId>().map_err(|error| error.to_string());
        let marker = |text: &str| Ok(text.parse::<MessageUuid>().ok());
        let after = problems.optional(form, "after", marker).flatten();
        let since = problems.optional(form, "since", marker).flatten();
        let parsed = Self {
            after: problems.optional(form, "after", id),
            since: problems.optional(form, "since", id),
            marker: after.or(since),
            limit: problems.optional(form, "limit", |text| integer(text, 1, LIMIT_MAX)),
            order: problems.optional(form, "order", order).unwrap_or_default(),
            partitions: problems.optional(form, "partitions", partitions).unwrap_or_else(|| vec![1]),
            wait: problems.optional(form, "wait", wait).unwrap_or_default(),
        };
        if parsed.after.is_some() && parsed.since.is_some() {
            let reason = "after and since exclude each other: since includes its message, after does not";
            problems.check::<()>("after", Err(reason.to_owned()));
        }
        problems.finish(Some(parsed))
    }
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "ascending" => Ok(Order::Ascending),
        "descending" => Ok(Order::Descending),
        _ => Err(format!("\"{text}\" is not one of ascending, descending")),
    }
}

fn partitions(text: &str) -> Result<Vec<u64>, String> {
    let number = |one: &str| match one.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large for u64 names a partition that no queue has, which reads as empty.
        true => Ok(one.parse().unwrap_or(u64::MAX)),
        false => Err(format!("\"{one}\" is not a number")),
    };
    let mut numbers = Vec::new();
    for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let number = number(one)?;
        // Skip repeats, so that a long list cannot make us read the same partition for ever.
        if !numbers.contains(&number) {
            numbers.push(number);
        }
        if numbers.len() > usize::from(PARTITIONS_MAX) {
            return Err(format!("more than {PARTITIONS_MAX} partitions"));
        }
    }
    Ok(numbers)
}

/// Seconds of a long poll.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    if seconds > WAIT_SECONDS_MAX {
        return Err(format!("{text} is greater than maximum value {WAIT_SECONDS_MAX}"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is less than minimum value 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        Form::parse(text.as_bytes()).unwrap()
    }

    fn reasons<T: std::fmt::Debug>(result: Result<T, Reasons>) -> Vec<(String, String)> {
        result.unwrap_err().into_iter().collect()
    }

    #[test]
    fn numbers_are_refused_in_the_words_of_queuey() {
        assert_eq!(integer("fred", 1, 1), Err("\"fred\" is not a number".into()));
        assert_eq!(integer("4", 1, 1), Err("4 is greater than maximum value 1".into()));
        assert_eq!(integer("0", 1, 1), Err("0 is less than minimum value 1".into()));
        assert_eq!(integer("-1", 0, 1), Err("-1 is less than minimum value 0".into()));
        assert_eq!(
            integer("99999999999999999999", 0, 9),
            Err("99999999999999999999 is greater than maximum value 9".into())
        );
    }

    #[test]
    fn parameters_that_are_not_utf8_are_refused_by_name() {
        for text in [&b"a=1&queue_name=%FF"[..], b"queue_name=\xff", b"queue_name=%e2%98&b=%83"] {
            assert_eq!(reasons(Form::parse(text)), [("queue_name".into(), "it is not UTF-8".into())]);
        }
        assert_eq!(form("queue_name=%e2%98%83").value("queue_name"), Some("\u{2603}"));
        assert_eq!(form("a=1&queue_name=x&b&=&limit=1&a=2").0.len(), 2, "what nobody asks for is not kept");
    }

    #[test]
    fn parameters_that_are_missing_or_empty_are_none() {
        assert_eq!(QueueForm::parse(&form("")), Ok(QueueForm::default()));
        assert_eq!(QueueForm::parse(&form("queue_name=&partitions=")), Ok(QueueForm::default()));
        let all = QueueForm::parse(&form(
            "queue_name=a&partitions=200&type=public&consistency=weak&principles=app%3Anotes,bid:a.b@x.org",
        ))
        .unwrap();
        assert_eq!((all.partitions, all.visibility), (Some(200), Some(Visibility::Public)));
        assert_eq!(all.principles.as_deref(), Some("app:notes,bid:a.b@x.org"));
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let reported = reasons(QueueForm::parse(&form("partitions=201&type=x&principles=queen")));
        assert_eq!(
            reported.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>(),
            ["partitions", "principles", "type"]
        );
    }

    #[test]
    fn lists_begin_at_a_name_and_words_are_true() {
        let list = ListForm::parse(&form("limit=0&offset=m&details=yes")).unwrap();
        assert_eq!((list.limit, list.details, list.include_count), (Some(0), true, false));
        assert!(ListForm::parse(&form("include_count=1")).unwrap().details);
        assert!(!ListForm::parse(&form("details=False")).unwrap().details);
        assert!(ListForm::parse(&form("limit=-1")).is_err());
    }

    #[test]
    fn reading_takes_ids_or_times_and_partitions_in_order() {
        let read =
            ReadForm::parse(&form("since=1330365230.03807&partitions=3,%201&order=descending&wait=1.5"))
                .unwrap();
        assert_eq!(read.partitions, [3, 1]);
        assert_eq!((read.order, read.wait), (Order::Descending, Duration::from_millis(1_500)));
        assert_eq!(ReadForm::parse(&form("since=")).unwrap().since, None);
        for wrong in
            ["since=x", "limit=0", "limit=1001", "partitions=a", "wait=-1", "wait=61", "wait=nan", "order=up"]
        {
            assert!(ReadForm::parse(&form(wrong)).is_err(), "{wrong}");
        }
        assert!(ReadForm::parse(&form("since=1.0&after=2.0")).is_err());
    }
}
