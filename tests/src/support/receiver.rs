//! The other ends of streams: they take what comes and keep it in a file.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::wait::{DEADLINE, Patience};

/// How long a read takes at the most, for others to follow.
const LOOK: Duration = Duration::from_millis(50);

/// A stream whose reads end after [`LOOK`], read for as long as tests wait.
struct Patient<R>(R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut patience = Patience::new(DEADLINE);
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !patience.is_over() => {}
                result => return result,
            }
        }
    }
}

/// Something that listens for one connection at a time.
#[derive(Debug)]
pub enum Listener {
    /// On a port of 127.0.0.1.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener, PathBuf),
}

/// One connection, not read yet.
pub struct Connection(Box<dyn Read + Send>);

/// A connection that is read to its end.
#[derive(Debug)]
pub struct Reading {
    path: PathBuf,
    thread: JoinHandle<io::Result<u64>>,
}

impl Listener {
    /// Listens on a free port.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn tcp() -> Listener {
        Listener::Tcp(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    /// Listens on a path at which there is no file.
    ///
    /// # Panics
    ///
    /// If there is something.
    #[must_use]
    pub fn unix(path: &Path) -> Listener {
        Listener::Unix(UnixListener::bind(path).expect("a socket"), path.to_owned())
    }

    /// What `FDR_OUT` is set to.
    ///
    /// # Panics
    ///
    /// If the system does not know the port.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(tcp) => format!("tcp://{}", tcp.local_addr().expect("a port")),
            Listener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Waits for a connection.
    ///
    /// # Panics
    ///
    /// If none comes.
    #[must_use]
    pub fn accept(&self) -> Connection {
        match self {
            Listener::Tcp(tcp) => Connection::tcp(tcp.accept().expect("a connection").0),
            Listener::Unix(unix, _) => {
                let stream = unix.accept().expect("a connection").0;
                stream.set_read_timeout(Some(LOOK)).expect("a time limit");
                Connection(Box::new(Patient(stream)))
            }
        }
    }
}

impl Connection {
    fn tcp(stream: TcpStream) -> Connection {
        stream.set_read_timeout(Some(LOOK)).expect("a time limit");
        Connection(Box::new(Patient(stream)))
    }

    /// Connects to a port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If no program listens there.
    #[must_use]
    pub fn to(place: &str) -> Connection {
        Connection::tcp(TcpStream::connect(place).expect("somebody listens"))
    }

    /// Reads to the end, into a file.
    ///
    /// # Panics
    ///
    /// If the file can't be made.
    #[must_use]
    pub fn read_to(mut self, path: PathBuf) -> Reading {
        let mut file = File::create(&path).expect("a file");
        let thread = thread::spawn(move || io::copy(&mut self.0, &mut file));
        Reading { path, thread }
    }

    /// Reads at least `bytes` bytes into a file, and then reads no more.
    ///
    /// # Panics
    ///
    /// If it ends before.
    pub fn read_some(&mut self, bytes: usize, path: &Path) {
        let mut read = vec![0; bytes];
        self.0.read_exact(&mut read).expect("as many bytes");
        std::fs::write(path, read).expect("a file");
    }

    /// Waits a little: for tests of what does not depend on how long that is.
    pub fn idle(&self) {
        thread::sleep(Duration::from_millis(50));
    }
}

impl Reading {
    /// Waits for the end; returns the file.
    ///
    /// # Panics
    ///
    /// If the connection breaks instead.
    #[must_use]
    pub fn end(self) -> PathBuf {
        let result = self.thread.join().expect("it reads");
        result.expect("the connection ends");
        self.path
    }
}
