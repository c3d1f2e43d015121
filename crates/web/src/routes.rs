//! The list of all addresses of the REST interface: what each reads or does, and what that takes. The OpenAPI document is
//! made of it.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use menagerie_znodes::web::{Area, Scope};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::acts::{self, Done};
use crate::audit::Actor;
use crate::params::{CURSOR, FILTER, LIMIT_PARAM, Param, ParamKind, Params};
use crate::problem::Problem;
use crate::reads;
use crate::sources::Sources;

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;
type Read = Box<dyn Fn(Arc<Sources>, Params) -> BoxFuture<'static, Result<Value, Problem>> + Send + Sync>;
/// An act that begins when it is waited for.
type Acting = BoxFuture<'static, Result<Done, Problem>>;
type Act = Box<dyn Fn(Arc<Sources>, Actor, Params, Value) -> Result<Acting, Problem> + Send + Sync>;

/// An address that can be read.
pub struct ReadRoute {
    /// Below `/api/v1`, with `{…}` for what varies.
    pub path: &'static str,
    /// Whose rights it takes; the scope is `read`.
    pub area: Area,
    /// What it gives.
    pub about: &'static str,
    /// Its parameters.
    pub query: &'static [Param],
    /// The schema of its reply.
    pub reply: MakeSchema,
    /// Reads.
    pub read: Read,
}

/// An address that changes something.
pub struct ActRoute {
    /// Below `/api/v1`, with `{…}` for what varies.
    pub path: &'static str,
    /// In the audit trail.
    pub name: &'static str,
    /// Whose rights it takes.
    pub area: Area,
    /// Which of them.
    pub scope: Scope,
    /// What it does.
    pub about: &'static str,
    /// The schema of its body.
    pub body: MakeSchema,
    /// Acts.
    pub act: Act,
}

const LIST: &[Param] = &[FILTER, CURSOR, LIMIT_PARAM];
/// Parameters of a list without a filter.
pub const PAGES: &[Param] = &[CURSOR, LIMIT_PARAM];
const JOBS: &[Param] =
    &[FILTER, text("state", "Only jobs in this state, such as `running`."), CURSOR, LIMIT_PARAM];
const WAITING: &[Param] = &[
    Param { name: "partition", about: "Only of this partition.", kind: ParamKind::Number(65_535) },
    LIMIT_PARAM,
];
/// Parameters of a history of pipelines.
pub const HISTORY: &[Param] = &[
    text("project", "Only of this project."),
    text("change", "Only of this change: `propose/TARGET/TOPIC`, or with `PROJECT:` before it."),
    text("pipeline", "Only of this pipeline."),
    text("job", "Only with builds of this job."),
    text("result", "Only with this result, such as `SUCCESS`."),
    CURSOR,
    LIMIT_PARAM,
];
/// Parameters of a log.
const LOG: &[Param] = &[Param {
    name: "offset",
    about: "Where the piece begins, in bytes: `next_offset` of the piece before.",
    kind: ParamKind::Offset,
}];
/// Parameters of the browser of znodes.
pub const ZNODE: &[Param] = &[
    text("path", "Path of the znode, from the namespace on; `/` if it is left out."),
    FILTER,
    CURSOR,
    LIMIT_PARAM,
];

const fn text(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: ParamKind::Text }
}

fn read<T, F, R>(
    path: &'static str,
    area: Area,
    about: &'static str,
    query: &'static [Param],
    read: F,
) -> ReadRoute
where
    T: Serialize + JsonSchema,
    F: Fn(Arc<Sources>, Params) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let to_json = |value: &T| {
        serde_json::to_value(value).map_err(|error| Problem::new(500, format!("a reply: {error}"), ""))
    };
    let read = move |sources: Arc<Sources>, params: Params| {
        let reading = read(sources, params);
        async move { to_json(&reading.await?) }.boxed()
    };
    ReadRoute { path, area, about, query, reply: T::json_schema_in, read: Box::new(read) }
}

trait InGenerator: JsonSchema {
    fn json_schema_in(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}
impl<T: JsonSchema> InGenerator for T {}

fn act<B, F, R>(
    path: &'static str,
    (name, area, scope): (&'static str, Area, Scope),
    about: &'static str,
    act: F,
) -> ActRoute
where
    B: DeserializeOwned + JsonSchema,
    F: Fn(Arc<Sources>, Actor, Params, B) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Done, Problem>> + Send + 'static,
{
    let act = move |sources: Arc<Sources>, actor: Actor, params: Params, body: Value| {
        let body = serde_json::from_value::<B>(body);
        let refused = |why| Problem::bad(format!("body: {why}"), "/api/openapi.json says what it may have");
        Ok(act(sources, actor, params, body.map_err(refused)?).boxed())
    };
    ActRoute { path, name, area, scope, about, body: B::json_schema_in, act: Box::new(act) }
}

/// All that can be read.
pub fn reads() -> Vec<ReadRoute> {
    use Area::{Flows, Installation, Queues, Slots};
    let mut all = vec![
        read(
            "/components",
            Installation,
            "All registered processes.",
            LIST,
            reads::installation::all_components,
        ),
        read("/keeper", Installation, "How ZooKeeper is.", &[], reads::installation::keeper),
        read("/znodes", Installation, "A znode and its children.", ZNODE, reads::znodes::znode),
        read(
            "/audit",
            Installation,
            "Changes over this interface, newest first.",
            PAGES,
            reads::audit::trail,
        ),
        read("/slots", Slots, "All pools.", LIST, reads::slots::pools),
        read("/slots/{pool}", Slots, "A pool with holders and waiters.", &[], reads::slots::pool),
        read(
            "/slots/{pool}/history",
            Slots,
            "What happened in a pool, newest first.",
            PAGES,
            reads::slots::history,
        ),
        read("/queues", Queues, "All queues.", LIST, reads::queues::queues),
        read("/queues/{queue}", Queues, "A queue with its partitions.", &[], reads::queues::queue),
        read(
            "/queues/{queue}/failed",
            Queues,
            "Failed messages, oldest first.",
            PAGES,
            reads::queues::failed,
        ),
        read(
            "/queues/{queue}/history",
            Queues,
            "The last hour of a queue, a sample every ten seconds, as this process has seen it while somebody looked.",
            &[],
            reads::queues::history,
        ),
        read("/queues/{queue}/waiting", Queues, "The next messages.", WAITING, reads::queues::waiting),
        read(
            "/queues/{queue}/messages/{id}",
            Queues,
            "What happened to a message.",
            &[],
            reads::queues::message,
        ),
        read("/workers", Queues, "All workers of queues.", LIST, reads::queues::workers),
        read("/flows", Flows, "All jobs, newest first.", JOBS, reads::flows::jobs),
        read("/flows/{job}", Flows, "A job with its tasks.", &[], reads::flows::job),
    ];
    all.extend(pipeline_reads());
    all
}

fn pipeline_reads() -> Vec<ReadRoute> {
    use Area::Pipelines;
    vec![
        read("/pipelines", Pipelines, "All tenants.", LIST, reads::pipelines::tenants),
        read("/pipelines/{tenant}", Pipelines, "What is queued in a tenant.", &[], reads::pipelines::status),
        read(
            "/pipelines/{tenant}/history",
            Pipelines,
            "What has ended in a tenant, newest first.",
            HISTORY,
            reads::pipelines::history,
        ),
        read(
            "/pipelines/{tenant}/builds/{build}",
            Pipelines,
            "A build: one attempt to run a job.",
            &[],
            reads::builds::build,
        ),
        read(
            "/pipelines/{tenant}/builds/{build}/log",
            Pipelines,
            "A piece of the log of a build.",
            LOG,
            reads::builds::log,
        ),
    ]
}

/// All that can be changed.
pub fn acts() -> Vec<ActRoute> {
    use Area::{Flows, Pipelines, Queues, Slots};
    use Scope::{Operate, Submit};
    use acts::{flows, pipelines, queues, slots};
    vec![
        act(
            "/slots/{pool}/freeze",
            ("slots.freeze", Slots, Operate),
            "Admit nobody from now on.",
            slots::freeze,
        ),
        act("/slots/{pool}/thaw", ("slots.thaw", Slots, Operate), "Admit again.", slots::thaw),
        act("/slots/{pool}/release", ("slots.release", Slots, Operate), "Free a slot.", slots::release),
        act("/queues/{queue}/messages", ("queues.put", Queues, Submit), "Put a message.", queues::put),
        act(
            "/queues/{queue}/failed/retry",
            ("queues.retry", Queues, Operate),
            "Put failed messages back into their partitions.",
            queues::retry,
        ),
        act(
            "/queues/{queue}/failed/forget",
            ("queues.forget", Queues, Operate),
            "Drop failed messages for good.",
            queues::forget,
        ),
        act(
            "/queues/{queue}/pause",
            ("queues.pause", Queues, Operate),
            "Begin no more messages.",
            queues::pause,
        ),
        act("/queues/{queue}/resume", ("queues.resume", Queues, Operate), "Go on.", queues::resume),
        act(
            "/workers/{worker}/pause",
            ("workers.pause", Queues, Operate),
            "Pause a worker.",
            queues::pause_worker,
        ),
        act(
            "/workers/{worker}/resume",
            ("workers.resume", Queues, Operate),
            "Let it go on.",
            queues::resume_worker,
        ),
        act("/flows", ("flows.submit", Flows, Submit), "Submit a job.", flows::submit),
        act("/flows/{job}/kill", ("flows.kill", Flows, Operate), "End a job.", flows::kill),
        act(
            "/pipelines/{tenant}/{pipeline}/enqueue",
            ("pipelines.enqueue", Pipelines, Submit),
            "Put a change into a pipeline.",
            pipelines::enqueue,
        ),
        act(
            "/pipelines/{tenant}/{pipeline}/dequeue",
            ("pipelines.dequeue", Pipelines, Operate),
            "Take a change out of a pipeline.",
            pipelines::dequeue,
        ),
        act("/approvals", ("pipelines.approve", Pipelines, Operate), "Vote on a change.", pipelines::approve),
    ]
}
