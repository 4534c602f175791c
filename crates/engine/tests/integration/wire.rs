//! Runs every wire script over every architecture: sent as a whole and byte by byte, in plain text and over TLS.

use crate::engine;
use std::io::{Read, Write};

use crate::engine::tls::Identity;
use crate::engine::{Client, Server, over_all, over_all_rich};
use sojourn_testing::script::{Script, Step, content, dialogues, scripts};

/// Longer scripts are not sent byte by byte, which would take long and show nothing new.
const BYTEWISE_MAX: usize = 1000;

fn play<S: Read + Write>(script: &Script, client: &mut Client<S>, piece_bytes: usize) -> Result<(), String> {
    for step in &script.steps {
        match step {
            Step::Send(bytes) => bytes.chunks(piece_bytes).for_each(|piece| client.send(piece)),
            Step::Expect(pattern) => client.expect(pattern)?,
            Step::Close => {
                let rest = client.rest();
                if !rest.is_empty() {
                    return Err(format!("surplus: {:?}", String::from_utf8_lossy(&rest)));
                }
            }
        }
    }
    Ok(())
}

fn play_all(scripts: &[Script], server: &Server) {
    for script in scripts {
        let sent = |step: &Step| if let Step::Send(bytes) = step { bytes.len() } else { 0 };
        let is_short = script.steps.iter().map(sent).sum::<usize>() <= BYTEWISE_MAX;
        for piece_bytes in if is_short { [usize::MAX, 1].as_slice() } else { &[usize::MAX] } {
            if let Err(error) = play(script, &mut server.connect(), *piece_bytes) {
                panic!("{:?}, in pieces of {piece_bytes}: {error}", script.title);
            }
        }
    }
}

#[test]
fn every_script_over_every_architecture() {
    let scripts: Vec<Script> = scripts().into_iter().chain(dialogues()).collect();
    over_all(&[], |server, _| play_all(&scripts, &server));
}

#[test]
fn every_script_about_content_over_every_architecture() {
    let scripts = content();
    over_all_rich(|server, _| play_all(&scripts, &server));
}

#[test]
fn every_script_through_tls() {
    // The meaning of a scheme in the request depends on whether TLS is used.
    let names_scheme =
        |step: &Step| matches!(step, Step::Send(sent) if sent.windows(3).any(|three| three == b"://"));
    let mut scripts: Vec<Script> = scripts().into_iter().chain(dialogues()).collect();
    scripts.retain(|script| !script.steps.iter().any(names_scheme));
    let identity = Identity::new();
    let config = identity.trusted();
    over_all(&identity.flags(), |server, _| {
        let address = server.another_address(0);
        for script in &scripts {
            if let Err(error) = play(script, &mut engine::tls::connect(address, &config), usize::MAX) {
                panic!("{:?}: {error}", script.title);
            }
        }
    });
}
