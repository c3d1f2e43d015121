//! A Python function as a task. The small program that calls it is in here, so that nothing has to be installed.

use std::ffi::OsString;

use super::Shape;

/// What calls the function.
const RUNNER: &str = include_str!("python.py");

/// A function, and what goes with it. Each is `module:function`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The interpreter.
    pub interpreter: OsString,
    /// `f(message, context)`; with batches, `f(messages, context)`.
    pub function: String,
    /// Called once, before the first message; what it returns is the context.
    pub on_startup: Option<String>,
    /// Called with the context in each fork, before the function.
    pub after_fork: Option<String>,
}

impl Python {
    /// The program to run: for [`Serve`](super::serve::Serve), which is to wait until it says that it is ready.
    pub fn command(&self, shape: Shape) -> Vec<OsString> {
        let shape = match shape {
            Shape::One => "one",
            Shape::List => "list",
        };
        let hooks = [&self.on_startup, &self.after_fork].map(|hook| hook.clone().unwrap_or_default());
        let [on_startup, after_fork] = hooks;
        let mut command: Vec<OsString> = vec![self.interpreter.clone(), "-c".into(), RUNNER.into()];
        command.extend([self.function.clone().into(), on_startup.into(), after_fork.into(), shape.into()]);
        command
    }
}
