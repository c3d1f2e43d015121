//! The usage that readers see, in `zookeeper_stats`.

use super::{
    LIMITS, Limits, Quota, QuotaZnode, Quotas, Usage, counted, covering_paths, quota_znode, stats_path,
};
use crate::core::path;
use crate::core::state::State;

impl State {
    pub(in crate::core) fn show_created(&mut self, path: &str, length: i32) {
        match quota_znode(path) {
            Some((target, QuotaZnode::Stats)) => {
                let usage = counted(&self.tree, target);
                self.quotas.shown.insert(target.into());
                self.show(target, |_| usage);
            }
            Some((_, QuotaZnode::Limits)) => {}
            None => self.show_change(path, Usage::of_one(length)),
        }
    }

    pub(in crate::core) fn show_deleted(&mut self, path: &str, length: i32) {
        match quota_znode(path) {
            Some((target, QuotaZnode::Stats)) => {
                self.quotas.shown.remove(target);
            }
            Some((_, QuotaZnode::Limits)) => {}
            None => self.show_change(path, Usage::without_one(length)),
        }
    }

    pub(in crate::core) fn show_resized(&mut self, path: &str, growth: i64) {
        if self.quotas.shown.is_empty() {
            return;
        }
        match quota_znode(path) {
            Some((_, QuotaZnode::Limits | QuotaZnode::Stats)) => {}
            None => self.show_change(path, Usage::of_growth(growth)),
        }
    }

    /// The data that replaces a client's write to a `zookeeper_stats`: the usage that it shows already.
    pub(in crate::core) fn shown_instead(&self, path: &str) -> Option<Box<[u8]>> {
        if self.quotas.shown.is_empty() || !matches!(quota_znode(path)?, (_, QuotaZnode::Stats)) {
            return None;
        }
        self.tree.get(path)?.data.clone()
    }

    fn show_change(&mut self, path: &str, more: Usage) {
        if self.quotas.shown.is_empty() {
            return;
        }
        for target in covering_paths(path) {
            if self.quotas.shown.contains(target) {
                self.show(target, |mut usage| {
                    usage.add(more);
                    usage
                });
            }
        }
    }

    fn show(&mut self, target: &str, change: impl FnOnce(Usage) -> Usage) {
        let Some(slot) = self.tree.slot(&stats_path(target)) else { return };
        let usage = Limits::parse(self.tree.at(slot).data.as_deref()).soft;
        self.tree.set_data(slot, Some(change(usage).encode()));
    }

    /// Finds all quotas and counts everything below them; for a state that was just loaded.
    pub fn count_quotas(&mut self) {
        let found: Vec<(Box<str>, QuotaZnode, Limits)> = self
            .tree
            .iter()
            .filter_map(|znode| Some((quota_znode(&znode.path)?, znode.data.as_deref())))
            .map(|((target, role), data)| (target.into(), role, Limits::parse(data)))
            .collect();
        self.quotas = Quotas::default();
        for (target, role, limits) in found {
            match role {
                QuotaZnode::Limits => self.quotas.change(&target, |quota| quota.limits = Some(limits)),
                QuotaZnode::Stats => {
                    let usage = counted(&self.tree, &target);
                    self.quotas.change(&target, |quota| quota.usage = Some(usage));
                    self.show(&target, |_| usage);
                    self.quotas.shown.insert(target);
                }
            }
        }
    }

    /// The first quota whose usage or limits differ from the tree, for [`crate::core::invariants`].
    pub(in crate::core) fn miscounted_quota(&self) -> Option<&str> {
        let data = |path: &str| self.tree.get(path).map(|znode| znode.data.as_deref());
        let is_shown =
            |target: &str| data(&stats_path(target)) == Some(Some(&counted(&self.tree, target).encode()[..]));
        let is_decided = |target: &str, quota: &Quota| {
            let limits = data(&format!("{}{target}/{LIMITS}", path::QUOTA)).map(Limits::parse);
            let usage = data(&stats_path(target)).map(|_| counted(&self.tree, target));
            *quota == Quota { limits, usage }
        };
        let shown = self.quotas.shown.iter().find(|target| !is_shown(target));
        let decided = || {
            let mut all = self.quotas.decided.iter().filter(|_| self.is_settled());
            all.find(|(target, quota)| !is_decided(target, quota)).map(|(target, _)| target)
        };
        shown.or_else(decided).map(|target| &**target)
    }
}
