//! Lines of a log that contain something, found piece by piece: so a long log is searched over several looks, and one that
//! grows is never read again.

use std::collections::VecDeque;

use super::text::plain;

/// Lines that are shown, the newest.
const LINES: usize = 300;
/// Longer lines are searched in pieces of this many bytes.
const LINE_BYTES: usize = 16 << 10;
/// Characters shown of a line.
const SHOWN: usize = 500;

/// A search through a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSearch {
    wanted: String,
    /// Where to go on reading.
    next: u64,
    /// Lines that have ended.
    lines: u64,
    /// What was read of the line that has not.
    partial: Vec<u8>,
    found: VecDeque<Line>,
    count: u64,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1.
    pub number: u64,
    /// Its beginning, plain.
    pub text: String,
}

impl LogSearch {
    /// Looks for a text, whatever the case of its letters.
    pub fn new(wanted: &str) -> Self {
        Self { wanted: wanted.to_lowercase(), ..Self::default() }
    }

    /// Where the log was read up to.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes in what follows in the log, which was read up to `next`.
    pub fn push(&mut self, bytes: &[u8], next: u64) {
        self.next = next;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            let has_ended = self.partial.last() == Some(&b'\n');
            if has_ended || self.partial.len() >= LINE_BYTES {
                if let Some(line) = self.look() {
                    self.count += 1;
                    self.found.push_back(line);
                    if self.found.len() > LINES {
                        self.found.pop_front();
                    }
                }
                self.partial.clear();
                self.lines += u64::from(has_ended);
            }
        }
    }

    /// The last line of the log that is being read, if it contains what is wanted.
    fn look(&self) -> Option<Line> {
        let text = plain(&self.partial);
        let text = text.trim_end_matches('\n');
        let matches = !text.is_empty() && text.to_lowercase().contains(&self.wanted);
        matches.then(|| Line { number: self.lines + 1, text: text.chars().take(SHOWN).collect() })
    }

    /// The newest lines that were found.
    pub fn found(&self) -> Vec<Line> {
        let unfinished = self.look();
        let skipped = usize::from(unfinished.is_some() && self.found.len() == LINES);
        self.found.iter().skip(skipped).cloned().chain(unfinished).collect()
    }

    /// How many were found in all.
    pub fn count(&self) -> u64 {
        self.count + u64::from(self.look().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(search: &LogSearch) -> Vec<u64> {
        search.found().iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_are_found_however_the_log_is_cut() {
        let log = b"one Error\ntwo\n\n\x1b[31mthree e\x1b[0mrror\nfour ERROR";
        for size in 1..log.len() {
            let mut search = LogSearch::new("error");
            for (at, piece) in log.chunks(size).enumerate() {
                search.push(piece, (at * size + piece.len()) as u64);
            }
            assert_eq!((numbers(&search), search.count()), (vec![1, 4, 5], 3), "{size}");
            assert_eq!(search.found()[1].text, "three error");
            assert_eq!(search.next(), log.len() as u64);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut search = LogSearch::new("x");
        for _ in 0..LINES + 5 {
            search.push(b"x\n", 0);
        }
        search.push(b"also x", 0);
        let found = numbers(&search);
        assert_eq!((found.len(), found[0], search.count()), (LINES, 7, LINES as u64 + 6));
        search.push(&vec![b'y'; 100 * LINE_BYTES], 0);
        assert!(search.partial.len() < LINE_BYTES);
        search.push(b"x\n", 0);
        assert_eq!(search.found().last().unwrap().number, LINES as u64 + 6);
    }
}
