//! A typed client of the two calls of a process that holds tables: what a session does with one stream, call by call.
//!
//! Every call carries a hello and is answered by one, so that nothing is exchanged with a process that began anew on
//! another grid. A call that is not answered within [`limits::HANDSHAKE`] has failed.

use sluice_schedule::{Announcement, Feedback, HolderId};
use tonic::Status;
use tonic::transport::Channel;

use crate::dial::Dial;
use crate::hello::{self, Hello, Welcome};
use crate::pb::{self, switch_client::SwitchClient};
use crate::session::{SessionError, in_time, read_feedback};
use crate::{convert, limits};

/// A host's way to a process that holds tables, by calls.
#[derive(Debug)]
pub struct CallClient {
    uri: String,
    client: SwitchClient<Channel>,
}

/// What a call brought.
#[derive(Debug)]
pub struct Answer {
    /// What the other end said to the hello.
    pub welcome: Welcome,
    /// Of the holders that were asked, or that have something of this host's.
    pub feedback: Vec<(HolderId, Feedback)>,
}

impl CallClient {
    /// Connects to `uri` (`http://address:port`) within [`limits::HANDSHAKE`].
    ///
    /// # Errors
    /// No connection.
    pub async fn connect(uri: &str) -> Result<CallClient, SessionError> {
        CallClient::connect_by(&Dial::Plain, uri).await
    }

    /// The same by this kind of connection.
    ///
    /// # Errors
    /// No connection.
    pub async fn connect_by(dial: &Dial, uri: &str) -> Result<CallClient, SessionError> {
        let transport = |source| SessionError::Transport { uri: uri.into(), source };
        let channel = dial.channel(uri).await.map_err(transport)?;
        let client = SwitchClient::new(channel).max_decoding_message_size(limits::MESSAGE);
        Ok(CallClient { uri: uri.into(), client })
    }

    /// Reads what these holders know; nothing of those that know nothing of this host.
    ///
    /// # Errors
    /// A refusal, silence, or an answer that no correct process gives.
    pub async fn fetch(&mut self, hello: &Hello, holders: &[HolderId]) -> Result<Answer, SessionError> {
        let holders = holders.iter().map(|holder| holder.0).collect();
        let request = pb::FetchRequest { hello: Some(hello.into()), holders };
        let answer = in_time(&self.uri, async { Ok(self.client.fetch_feedback(request).await?.into_inner()) }).await?;
        self.read(answer)
    }

    /// Replaces what was promised to these holders, and reads what they know.
    ///
    /// # Errors
    /// A refusal, silence, or an answer that no correct process gives.
    pub async fn update<'a>(
        &mut self,
        hello: &Hello,
        announcements: impl IntoIterator<Item = (&'a HolderId, &'a Announcement)>,
    ) -> Result<Answer, SessionError> {
        let announcements =
            announcements.into_iter().map(|(holder, a)| convert::from_announcement(*holder, a)).collect();
        let request = pb::HostMessage { hello: Some(hello.into()), announcements };
        let answer = in_time(&self.uri, async { Ok(self.client.update_schedule(request).await?.into_inner()) }).await?;
        self.read(answer)
    }

    fn read(&self, answer: pb::HolderMessage) -> Result<Answer, SessionError> {
        let malformed = |status: Status| SessionError::Status { uri: self.uri.clone(), status: Box::new(status) };
        let welcome = hello::read_welcome(answer.welcome).map_err(malformed)?;
        let source = |source| SessionError::Malformed { uri: self.uri.clone(), source };
        Ok(Answer { welcome, feedback: read_feedback(answer.feedback).map_err(source)? })
    }
}
