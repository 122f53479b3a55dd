//! A far member made of a closure: an NBD server that offers what a test says, and answers as it says.

use crate::shaken::Shaken;
use forerun_serve::nbd::wire::{
    Command, Errno, Request, Run, data_chunk, error_chunk, simple_reply, status_chunk,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done.
    Well,
    /// It is answered with this error of the system.
    Fails(u8),
    /// It is never answered; others are.
    Silence,
}

/// Serves the bytes of `content` on `folder`/far, with these flags, for as long as the test runs. `fate` is asked at each request,
/// in the thread of its connection.
pub(crate) fn far(
    folder: &Path,
    flags: u16,
    content: Vec<u8>,
    fate: impl Fn(&Request) -> Fate + Send + Sync + 'static,
) {
    let listener = UnixListener::bind(folder.join("far")).expect("bound");
    let (content, fate) = (Arc::new(Mutex::new(content)), Arc::new(fate));
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (content, fate) = (Arc::clone(&content), Arc::clone(&fate));
            std::thread::spawn(move || serve(stream, flags, &content, &*fate));
        }
    });
}

fn serve(
    stream: UnixStream,
    flags: u16,
    content: &Mutex<Vec<u8>>,
    fate: &dyn Fn(&Request) -> Fate,
) -> Option<()> {
    let size = content.lock().expect("whole").len() as u64;
    let mut client = Shaken::hands(stream, size, flags)?;
    loop {
        let (request, data) = client.request()?;
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        let chunks = client.structured && matches!(request.command, Command::Read | Command::BlockStatus);
        let mut reply = match fate(&request) {
            Fate::Silence => continue,
            Fate::Fails(error) => {
                let mut head = simple_reply(None, request.cookie).to_vec();
                head[7] = error;
                if chunks {
                    head = error_chunk(Errno::Io, request.cookie).to_vec();
                    head[23] = error;
                }
                client.answer(&head)?;
                continue;
            }
            Fate::Well if request.command == Command::BlockStatus => {
                status_chunk(request.cookie, &[Run { bytes: request.length, flags: 0 }])
            }
            Fate::Well if chunks => data_chunk(true, request.cookie, request.offset, request.length).to_vec(),
            Fate::Well => simple_reply(None, request.cookie).to_vec(),
        };
        match request.command {
            Command::Read => reply.extend_from_slice(&content.lock().expect("whole")[range]),
            Command::Write => content.lock().expect("whole")[range].copy_from_slice(&data),
            Command::Disconnect => return None,
            _ => {}
        }
        client.answer(&reply)?;
    }
}
