//! Where a trace goes that is no file: standard output, or a program that listens at an address.

use std::io::{self, IsTerminal, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use fdr_formats::address::{Address, Side};
use fdr_formats::writer::{Kind, Target};

use crate::sockets::is_trusted;
use crate::ui::{self, StandardOutput};

/// The destination that `-o` names. `None`: a file or a folder.
///
/// # Errors
/// Where it can't take such a trace.
pub(crate) fn parse(output: Option<&Path>, target: &Target) -> anyhow::Result<Option<Address>> {
    let parsed = output.and_then(|text| {
        let text = text.as_os_str();
        Address::parse(text, Path::new(""), Side::Program)
    });
    let Some(parsed) = parsed else {
        return Ok(None);
    };
    let shown = || ui::path(output.unwrap_or(Path::new("")));
    let address = parsed.map_err(|what| anyhow!("-o {}: {what}", shown()))?;
    if target.kind == Kind::Folder {
        bail!("-o {address}: {} is a folder; give it a name", target.title);
    }
    match &address {
        Address::Stdout if io::stdout().is_terminal() => {
            bail!("-o -: a trace is not for a terminal; give a file, or send it to a pipe")
        }
        Address::Listen(place) => {
            bail!("-o {address}: fdr connects, and does not listen; tcp://{place} is for that")
        }
        _ => Ok(Some(address)),
    }
}

/// For people.
pub(crate) fn name(address: &Address) -> String {
    match address {
        Address::Stdout => "standard output".to_owned(),
        address => address.to_string(),
    }
}

/// Opens it.
///
/// # Errors
/// If no program listens at the address, or if the listener belongs to another user.
pub(crate) fn open(address: &Address) -> anyhow::Result<Box<dyn Write + Send>> {
    let named = || address.to_string();
    Ok(match address {
        Address::Stdout => Box::new(StandardOutput::new()?),
        Address::Connect(place) | Address::Listen(place) => {
            Box::new(TcpStream::connect(place).with_context(named)?)
        }
        Address::Unix(path) => {
            let socket = UnixStream::connect(path).with_context(named)?;
            if !is_trusted(&socket) {
                bail!("{address}: another user made the socket, and nothing is sent to that user");
            }
            Box::new(socket)
        }
    })
}
