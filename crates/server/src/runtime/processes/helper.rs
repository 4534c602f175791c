//! The life of a helper: it serves the connections that its dispatcher passes to it, one after the other.

use std::io;
use std::os::fd::AsFd;

use super::channel::{Message, ToDispatcher};
use crate::counters::scoreboard::Place;
use crate::runtime::blocking::attend_in_child;
use crate::site::Site;
use crate::stop::Stop;

/// Serves until the dispatcher closes the channel.
///
/// A helper that is told to stop says so and goes on, each response then being the last of its connection: the
/// dispatcher may have passed it one already, and when the whole server stops there is a queue to be served.
pub fn help(site: &Site, place: Place, stop: &Stop, channel: &ToDispatcher) -> io::Result<()> {
    attend_in_child(site, place, stop, |attendant| {
        let mut is_leaving = false;
        loop {
            if stop.is_requested() && !is_leaving {
                channel.say(Message::Leaving);
                is_leaving = true;
            }
            if attendant.wait_for_work(channel.as_fd(), !is_leaving) {
                let Some(arrival) = channel.receive() else { return Ok(()) };
                attendant.serve(arrival);
                channel.say(Message::Ready);
            }
        }
    })
}
