//! The tree of files and directories, as it is and as it was last synced.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Component, Path};

use super::crash::PAGE_BYTES;
use super::fault::Faults;
use crate::vfs::DirEntry;

/// A file or directory, by the order of creation; 0 is the root.
pub(super) type NodeId = usize;

/// One mutation, as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields say what the variants' names say")]
pub enum Operation {
    /// A new file or directory.
    Create { dir: usize, name: String, is_dir: bool },
    /// A name moved, replacing what had the target's.
    Rename { from_dir: usize, from_name: String, to_dir: usize, to_name: String },
    /// A name removed, with all below it.
    Remove { dir: usize, name: String },
    /// Bytes written.
    Write { node: usize, position: u64, bytes: Vec<u8> },
    /// A file cut or extended.
    SetLen { node: usize, bytes: u64 },
    /// A file synced.
    Sync { node: usize },
    /// A directory synced.
    SyncDir { dir: usize },
}

#[derive(Clone)]
pub(super) enum Node {
    File(FileNode),
    Dir(DirNode),
}

/// Invariant: outside of `dirty` pages and beyond `lengths`, `durable` equals `live`.
#[derive(Clone, Default)]
pub(super) struct FileNode {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Pages written since the last sync.
    pub(super) dirty: BTreeSet<u64>,
    /// Lengths that the file had since the last sync.
    pub(super) lengths: BTreeSet<u64>,
}

#[derive(Clone, Default)]
pub(super) struct DirNode {
    pub(super) live: BTreeMap<String, NodeId>,
    pub(super) durable: BTreeMap<String, NodeId>,
}

/// A change of names that no sync has covered; all of it survives a crash or nothing.
#[derive(Clone)]
pub(super) struct NameChange {
    pub(super) names: Vec<(NodeId, String, Option<NodeId>)>,
}

pub(super) struct State {
    pub(super) nodes: Vec<Node>,
    pub(super) pending: Vec<NameChange>,
    pub(super) faults: Faults,
    pub(super) recorded: Option<Vec<Operation>>,
    pub(super) locked: HashSet<NodeId>,
    pub(super) syncs: u64,
}

impl Default for State {
    fn default() -> Self {
        State {
            nodes: vec![Node::Dir(DirNode::default())],
            pending: Vec::new(),
            faults: Faults::default(),
            recorded: None,
            locked: HashSet::new(),
            syncs: 0,
        }
    }
}

impl State {
    pub(super) fn fork(&self) -> State {
        State { nodes: self.nodes.clone(), pending: self.pending.clone(), ..State::default() }
    }

    pub(super) fn resolve(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = 0;
        for component in path.components() {
            if let Component::Normal(name) = component {
                let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
                let Some(Node::Dir(dir)) = self.nodes.get(node) else {
                    return Err(io::ErrorKind::NotADirectory.into());
                };
                node = *dir.live.get(name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(node)
    }

    pub(super) fn parent_of(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.resolve(parent)?;
        match self.nodes.get(dir) {
            Some(Node::Dir(_)) => Ok((dir, name.to_owned())),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Path, is_dir: bool) -> io::Result<NodeId> {
        let (dir, name) = self.parent_of(path)?;
        self.mutate(Operation::Create { dir, name, is_dir })?;
        Ok(self.nodes.len() - 1)
    }

    pub(super) fn list(&self, node: NodeId) -> io::Result<Vec<DirEntry>> {
        let Some(Node::Dir(dir)) = self.nodes.get(node) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let entry = |(name, node): (&String, &NodeId)| DirEntry {
            name: name.clone(),
            is_dir: matches!(self.nodes.get(*node), Some(Node::Dir(_))),
        };
        Ok(dir.live.iter().map(entry).collect())
    }

    pub(super) fn require_file(&self, node: NodeId) -> io::Result<()> {
        match self.nodes.get(node) {
            Some(Node::File(_)) => Ok(()),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn length(&self, node: NodeId) -> u64 {
        match self.nodes.get(node) {
            Some(Node::File(file)) => file.live.len() as u64,
            _ => 0,
        }
    }

    pub(super) fn read(&self, node: NodeId, buffer: &mut [u8], position: u64) -> usize {
        let Some(Node::File(file)) = self.nodes.get(node) else {
            return 0;
        };
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(file.live.len());
        let bytes = &file.live[start..];
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        count
    }

    pub(super) fn flip_bit(&mut self, node: NodeId, bit: u64) -> io::Result<()> {
        let at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        let Some(Node::File(file)) = self.nodes.get_mut(node) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        *file.live.get_mut(at).ok_or(io::ErrorKind::UnexpectedEof)? ^= 1 << (bit % 8);
        if let Some(byte) = file.durable.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
        Ok(())
    }

    /// After a failed sync: what it should have written will be written by no later one.
    pub(super) fn forget_dirty(&mut self, node: NodeId) {
        if let Some(Node::File(file)) = self.nodes.get_mut(node) {
            file.dirty.clear();
        }
    }

    pub(super) fn mutate(&mut self, operation: Operation) -> io::Result<()> {
        self.apply(&operation);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(operation);
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { dir, name, is_dir } => {
                let node =
                    if *is_dir { Node::Dir(DirNode::default()) } else { Node::File(FileNode::default()) };
                self.nodes.push(node);
                self.change_names(vec![(*dir, name.clone(), Some(self.nodes.len() - 1))]);
            }
            Operation::Rename { from_dir, from_name, to_dir, to_name } => {
                let moved = match self.nodes.get(*from_dir) {
                    Some(Node::Dir(dir)) => dir.live.get(from_name).copied(),
                    _ => None,
                };
                self.change_names(vec![
                    (*from_dir, from_name.clone(), None),
                    (*to_dir, to_name.clone(), moved),
                ]);
            }
            Operation::Remove { dir, name } => self.change_names(vec![(*dir, name.clone(), None)]),
            Operation::Write { node, position, bytes } => {
                if let Some(Node::File(file)) = self.nodes.get_mut(*node) {
                    file.write(*position, bytes);
                }
            }
            Operation::SetLen { node, bytes } => {
                if let Some(Node::File(file)) = self.nodes.get_mut(*node) {
                    file.set_len(*bytes);
                }
            }
            Operation::Sync { node } => {
                if let Some(Node::File(file)) = self.nodes.get_mut(*node) {
                    file.sync();
                }
            }
            Operation::SyncDir { dir } => self.sync_names(*dir),
        }
    }

    fn change_names(&mut self, names: Vec<(NodeId, String, Option<NodeId>)>) {
        for (dir, name, node) in &names {
            if let Some(Node::Dir(dir)) = self.nodes.get_mut(*dir) {
                set_name(&mut dir.live, name, *node);
            }
        }
        self.pending.push(NameChange { names });
    }

    fn sync_names(&mut self, dir: NodeId) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if change.names.iter().any(|(touched, _, _)| *touched == dir) {
                change.apply_durably(&mut self.nodes);
            } else {
                self.pending.push(change);
            }
        }
    }
}

impl NameChange {
    pub(super) fn apply_durably(&self, nodes: &mut [Node]) {
        for (dir, name, node) in &self.names {
            if let Some(Node::Dir(dir)) = nodes.get_mut(*dir) {
                set_name(&mut dir.durable, name, *node);
            }
        }
    }
}

fn set_name(names: &mut BTreeMap<String, NodeId>, name: &str, node: Option<NodeId>) {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    };
}

impl FileNode {
    fn write(&mut self, position: u64, bytes: &[u8]) {
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        if self.live.len() < end {
            self.live.resize(end, 0);
            self.lengths.insert(end as u64);
        }
        self.live[start..end].copy_from_slice(bytes);
        if let Some(last) = (end as u64).checked_sub(1) {
            self.dirty.extend(position / PAGE_BYTES..=last / PAGE_BYTES);
        }
    }

    fn set_len(&mut self, bytes: u64) {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let lower = bytes.min(self.live.len() as u64);
        let upper = bytes.max(self.live.len() as u64);
        self.live.resize(length, 0);
        self.lengths.insert(bytes);
        if upper > lower {
            self.dirty.extend(lower / PAGE_BYTES..=(upper - 1) / PAGE_BYTES);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let start = usize::try_from(page * PAGE_BYTES).unwrap_or(usize::MAX).min(self.live.len());
            let end = self.live.len().min(start.saturating_add(PAGE_BYTES as usize));
            self.durable[start..end].copy_from_slice(&self.live[start..end]);
        }
        self.lengths.clear();
    }
}
