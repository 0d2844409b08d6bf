//! What a crash leaves: for each name, page and length that no sync covered, the old or the new.

use std::collections::BTreeSet;

use super::state::{DirNode, FileNode, Node, State};

/// Unit in which contents survive a crash.
pub const PAGE_BYTES: u64 = 4096;
/// Unit in which a page that was being written is torn.
pub const SECTOR_BYTES: usize = 512;

/// What happens to unsynced data in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All of it is lost.
    LoseAll,
    /// All of it survives: only the process died.
    KeepAll,
    /// Each page, name and length by chance, decided by this seed.
    Seeded(u64),
}

/// Chooses by policy.
pub(super) struct Chooser {
    policy: CrashPolicy,
    random: u64,
}

impl Chooser {
    pub(super) fn new(policy: CrashPolicy) -> Self {
        let random = if let CrashPolicy::Seeded(seed) = policy { seed } else { 0 };
        Chooser { policy, random }
    }

    pub(super) fn choose(&mut self, options: usize) -> usize {
        match self.policy {
            CrashPolicy::LoseAll => 0,
            CrashPolicy::KeepAll => options - 1,
            CrashPolicy::Seeded(_) => (splitmix(&mut self.random) % options.max(1) as u64) as usize,
        }
    }
}

/// The next number of Sebastiano Vigna's splitmix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The state after a crash. `choose(n)` answers 0 for the old and `n - 1` for the new.
pub(super) fn crash_state(state: &State, choose: &mut dyn FnMut(usize) -> usize) -> State {
    let mut nodes = state.nodes.clone();
    for change in &state.pending {
        if choose(2) == 1 {
            change.apply_durably(&mut nodes);
        }
    }
    let reachable = reachable(&nodes);
    for (id, node) in nodes.iter_mut().enumerate() {
        match node {
            _ if !reachable.contains(&id) => *node = Node::File(FileNode::default()),
            Node::File(file) => *file = crash_file(file, choose),
            Node::Dir(dir) => *dir = DirNode { live: dir.durable.clone(), durable: dir.durable.clone() },
        }
    }
    State { nodes, ..State::default() }
}

fn reachable(nodes: &[Node]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut queue = vec![0];
    while let Some(id) = queue.pop() {
        if found.insert(id)
            && let Some(Node::Dir(dir)) = nodes.get(id)
        {
            queue.extend(dir.durable.values());
        }
    }
    found
}

fn crash_file(file: &FileNode, choose: &mut dyn FnMut(usize) -> usize) -> FileNode {
    if file.dirty.is_empty() && file.lengths.is_empty() {
        return FileNode { live: file.durable.clone(), durable: file.durable.clone(), ..FileNode::default() };
    }
    let mut lengths: Vec<u64> = file.lengths.iter().copied().collect();
    // The newest length last, so that "all survives" picks it.
    lengths.retain(|length| *length != file.live.len() as u64);
    lengths.insert(0, file.durable.len() as u64);
    lengths.push(file.live.len() as u64);
    lengths.dedup();
    let length = usize::try_from(lengths[choose(lengths.len()).min(lengths.len() - 1)]).unwrap_or(0);
    let mut bytes = file.durable.clone();
    bytes.resize(length, 0);
    for page in &file.dirty {
        let start = usize::try_from(page * PAGE_BYTES).unwrap_or(usize::MAX);
        let end = length.min(start.saturating_add(PAGE_BYTES as usize));
        if start >= end {
            continue;
        }
        let new_end = match choose(3) {
            0 => start,
            1 => start + SECTOR_BYTES * (1 + choose(7)),
            _ => end,
        };
        let new_end = new_end.min(end).min(file.live.len());
        if start < new_end {
            bytes[start..new_end].copy_from_slice(&file.live[start..new_end]);
        }
    }
    FileNode { live: bytes.clone(), durable: bytes, ..FileNode::default() }
}
