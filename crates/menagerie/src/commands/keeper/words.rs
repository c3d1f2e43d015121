//! Which four-letter words the keeper answers.

use menagerie_keeper::Words;

/// A word that can be allowed, or nothing: a variable that is set to nothing counts as not set.
pub fn known(text: &str) -> Result<String, String> {
    let word = text.trim();
    match Words::default().allow(word) {
        Some(()) => Ok(word.to_owned()),
        None if word.is_empty() => Ok(String::new()),
        None => Err(format!("there is no word {word:?}; known are {}, and * for all", Words::ALL.join(" "))),
    }
}

/// The words that are answered when these are allowed as well.
pub fn allowed(more: &[String]) -> Words {
    let mut words = Words::default();
    for word in more {
        // Each was looked at when the command line was read; what is empty allows nothing.
        let _ = words.allow(word);
    }
    words
}
