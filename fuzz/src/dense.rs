//! What must hold for the dense stream, whatever the bytes: as a trace they come back as they were; as a
//! block they are decoded or refused, and what they stand for comes back once more. A block whose sizes and
//! checksum are wrong gets right ones, so that what is beneath them is reached. Knows no layout.

use fdr_formats::dense::{BLOCK, Decoder, Encoder, Head, LARGEST};

/// Everything that is to hold for an input.
///
/// # Panics
/// If something does not hold.
pub(crate) fn check(input: &[u8]) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let (mut block, mut plain) = (Vec::new(), Vec::new());
    if decoder.block(input, &mut plain).is_ok() {
        let head = Head::parse(input).expect("a head of what was decoded");
        assert_eq!(plain.len(), head.plain);
        comes_back(&mut encoder, &mut decoder, &plain, head.offset);
    }
    let mut sealed = input.to_vec();
    if decoder.seal(&mut sealed).is_ok() {
        let head = decoder.block(&sealed, &mut plain);
        let head = head.unwrap_or_else(|fault| panic!("a sealed block: {}", fault.what));
        comes_back(&mut encoder, &mut decoder, &plain, head.offset);
    }
    let Some((place, trace)) = input.split_first() else {
        return;
    };
    comes_back(&mut encoder, &mut decoder, trace, u64::from(*place) << 22);
    // Changed in one place, it is refused, or (once in 4 thousand million times) not found out.
    encoder.block(0, trace, &mut block);
    let at = usize::from(*place) * block.len() / 256;
    block[at] ^= 1 << (place & 7);
    let _ = decoder.block(&block, &mut plain);
    assert!(plain.len() <= BLOCK);
}

fn comes_back(encoder: &mut Encoder, decoder: &mut Decoder, trace: &[u8], offset: u64) {
    let (mut block, mut plain) = (Vec::new(), Vec::new());
    encoder.block(offset, trace, &mut block);
    assert!(block.len() <= LARGEST);
    match decoder.block(&block, &mut plain) {
        Ok(head) => assert_eq!((head.offset, head.plain), (offset, trace.len())),
        Err(fault) => panic!("own block: at byte {}: {}", fault.offset, fault.what),
    }
    assert!(plain == trace, "a trace that does not come back as it was");
}
