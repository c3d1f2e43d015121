//! Four-letter words that the keeper answers.

use menagerie_keeper::Words;

/// Parses a word that can be allowed. Empty is accepted: an empty environment variable counts as not set.
pub fn known(text: &str) -> Result<String, String> {
    let word = text.trim();
    match Words::default().allow(word) {
        Some(()) => Ok(word.to_owned()),
        None if word.is_empty() => Ok(String::new()),
        None => Err(format!("there is no word {word:?}; known are {}, and * for all", Words::ALL.join(" "))),
    }
}

/// The default words, and these.
pub fn allowed(more: &[String]) -> Words {
    let mut words = Words::default();
    for word in more {
        // The argument parser has checked each word; an empty one allows nothing.
        let _ = words.allow(word);
    }
    words
}
