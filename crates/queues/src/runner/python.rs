//! A Python function as a task. The program that calls it is embedded, so that nothing has to be installed.

use std::ffi::OsString;

use super::Shape;

/// The program that calls the function.
const RUNNER: &str = include_str!("python.py");

/// A function and its hooks, each as `module:function`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The Python interpreter.
    pub interpreter: OsString,
    /// `f(message, context)`; with batches, `f(messages, context)`.
    pub function: String,
    /// Called once before the first message; returns the context.
    pub on_startup: Option<String>,
    /// Called with the context in each fork before the function.
    pub after_fork: Option<String>,
}

impl Python {
    /// The command for [`Serve`](super::serve::Serve), which must wait for its greeting.
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
