//! Pipelines: what is queued, and what has ended.

use std::sync::Arc;

use menagerie_pipelines::history::{self, Filter};
use menagerie_pipelines::view::{self, StatusView};
use menagerie_types::Name;
use menagerie_znodes::pipelines::HistoryRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::Listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// A tenant in the list of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TenantRow {
    /// Its name.
    pub tenant: String,
    /// Its pipelines.
    pub pipelines: Vec<String>,
}

/// All tenants, by name.
pub async fn tenants(sources: Arc<Sources>, params: Params) -> Result<Listing<TenantRow>, Problem> {
    let term = sources.session.term();
    let mut rows = Vec::new();
    for tenant in view::tenants(&term).await? {
        if params.wants(tenant.as_str()) {
            let pipelines = view::pipelines(&term, &tenant).await?;
            let pipelines = pipelines.iter().map(ToString::to_string).collect();
            rows.push(TenantRow { tenant: tenant.to_string(), pipelines });
        }
    }
    Ok(Listing::page(rows, |row| row.tenant.clone(), &params))
}

/// All that is queued in a tenant.
pub async fn status(sources: Arc<Sources>, params: Params) -> Result<StatusView, Problem> {
    let tenant: Name = params.path("tenant")?;
    require_tenant(&sources, &tenant).await?;
    let mut view = view::status(&sources.session, &tenant).await?;
    sources.builds.estimates(&sources.journals, &tenant).await.fill_in(&mut view);
    Ok(view)
}

/// Fails unless there is such a tenant.
pub async fn require_tenant(sources: &Sources, tenant: &Name) -> Result<(), Problem> {
    let known = view::tenants(&sources.session.term()).await?;
    if !known.contains(tenant) {
        let names: Vec<&str> = known.iter().map(Name::as_str).collect();
        let help = match names.is_empty() {
            true => "there are no tenants: [pipelines] of the configuration names their file".to_owned(),
            false => format!("the tenants are: {}", names.join(", ")),
        };
        return Err(Problem::missing(format!("there is no tenant {tenant}"), help));
    }
    Ok(())
}

/// What has ended in a tenant, the newest first.
pub async fn history(sources: Arc<Sources>, params: Params) -> Result<Listing<HistoryRecord>, Problem> {
    let owned = |name: &str| params.text(name).map(str::to_owned);
    let filter = Filter {
        tenant: Some(params.path("tenant")?),
        project: owned("project"),
        change: owned("change"),
        pipeline: owned("pipeline"),
        job: owned("job"),
        build: None,
        result: owned("result"),
        // A page further back is read again from the newest entry on.
        limit: params.text("cursor").is_none().then(|| params.limit() + 1),
    };
    let before = params.query::<i64>("cursor")?;
    let records = history::list(&sources.journals, &filter).await?;
    let rest = records.into_iter().filter(|record| before.is_none_or(|before| record.ltime < before));
    Ok(Listing::cut(rest, |record| record.ltime.to_string(), &params))
}
