//! Lists that come in pages, gathered whole.
//!
//! Each page is a call of its own, so a list is not a snapshot: what is created or deleted meanwhile may or may not be in
//! it.

use wharf_proto::v1;

use crate::client::Client;
use crate::error::ClientError;

/// Entries of one page: the most that servers give.
const PAGE_SIZE: i32 = 1_000;

/// A topic with all its partitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicDescription {
    /// Name, identity, counts.
    pub topic: v1::TopicSummary,
    /// Every value of the configuration in the order of the names.
    pub config: Vec<v1::ConfigEntry>,
    /// Partitions in the order of their numbers.
    pub partitions: Vec<v1::PartitionInfo>,
}

/// A group with all its members and partitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupDescription {
    /// Name and state.
    pub group: v1::GroupSummary,
    /// How often members or assignments have changed.
    pub group_epoch: Option<i32>,
    /// Members in the order of their ids.
    pub members: Vec<v1::GroupMemberInfo>,
    /// Partitions in the order of topic and number.
    pub partitions: Vec<v1::GroupPartition>,
}

impl Client {
    /// A topic with all its partitions.
    ///
    /// # Errors
    /// `TOPIC_NOT_FOUND`, and what every call may end with.
    pub async fn describe_topic(&self, topic: &str) -> Result<TopicDescription, ClientError> {
        let mut request =
            v1::GetTopicRequest { topic: topic.to_owned(), page_size: PAGE_SIZE, page_token: String::new() };
        let mut whole = TopicDescription::default();
        loop {
            let page = self.decode(self.admin().get_topic(self.request(request.clone())).await)?;
            whole.topic = page.topic.unwrap_or_default();
            whole.config = page.config;
            whole.partitions.extend(page.partitions);
            if page.next_page_token.is_empty() {
                return Ok(whole);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// All topics whose names start with `prefix`, in the order of the names.
    ///
    /// # Errors
    /// What every call may end with.
    pub async fn list_topics(
        &self,
        prefix: &str,
        include_internal: bool,
    ) -> Result<Vec<v1::TopicSummary>, ClientError> {
        let mut request = v1::ListTopicsRequest {
            page_size: PAGE_SIZE,
            page_token: String::new(),
            prefix: prefix.to_owned(),
            include_internal,
        };
        let mut topics = Vec::new();
        loop {
            let page = self.decode(self.admin().list_topics(self.request(request.clone())).await)?;
            topics.extend(page.topics);
            if page.next_page_token.is_empty() {
                return Ok(topics);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// All groups whose names start with `prefix`, in the order of the names.
    ///
    /// # Errors
    /// What every call may end with.
    pub async fn list_groups(&self, prefix: &str) -> Result<Vec<v1::GroupSummary>, ClientError> {
        let mut request = v1::ListGroupsRequest {
            page_size: PAGE_SIZE,
            page_token: String::new(),
            prefix: prefix.to_owned(),
        };
        let mut groups = Vec::new();
        loop {
            let page = self.decode(self.admin().list_groups(self.request(request.clone())).await)?;
            groups.extend(page.groups);
            if page.next_page_token.is_empty() {
                return Ok(groups);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// A group with all its members and partitions.
    ///
    /// # Errors
    /// `GROUP_NOT_FOUND`, and what every call may end with.
    pub async fn describe_group(&self, group: &str) -> Result<GroupDescription, ClientError> {
        let mut request = v1::DescribeGroupRequest {
            group: group.to_owned(),
            page_size: PAGE_SIZE,
            page_token: String::new(),
        };
        let mut whole = GroupDescription::default();
        loop {
            let page = self.decode(self.admin().describe_group(self.request(request.clone())).await)?;
            whole.group = page.group.unwrap_or_default();
            whole.group_epoch = page.group_epoch;
            whole.members.extend(page.members);
            whole.partitions.extend(page.partitions);
            if page.next_page_token.is_empty() {
                return Ok(whole);
            }
            request.page_token = page.next_page_token;
        }
    }
}
