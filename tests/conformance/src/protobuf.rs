//! Protobuf as far as the cases need it: an object that an apiserver wrote, with one more annotation.

const MAGIC: &[u8] = b"k8s\0";
/// `metadata` of every object, its `annotations`, and `raw` of the envelope.
const METADATA: u8 = 1;
const ANNOTATIONS: u8 = 12;
const RAW: u8 = 2;

/// The object with an annotation whose value need not be text, which JSON could not say. `None` if it is no object.
#[must_use]
pub fn annotated(object: &[u8], key: &str, value: &[u8]) -> Option<Vec<u8>> {
    let mut rest = object.strip_prefix(MAGIC)?;
    let mut envelope = MAGIC.to_vec();
    while let Some((head, tail)) = rest.split_first() {
        let (length, behind) = varint(tail)?;
        let (content, behind) = behind.split_at_checked(length)?;
        rest = behind;
        let mut content = content.to_vec();
        if *head == key_of(RAW) {
            // Servers merge the parts of a message that comes twice.
            let entry = [field(1, key.as_bytes()), field(2, value)].concat();
            content.extend(field(METADATA, &field(ANNOTATIONS, &entry)));
        }
        envelope.extend(field(head >> 3, &content));
    }
    Some(envelope)
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![key_of(number)];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

/// Of a field with a length, whose number is less than 16.
fn key_of(number: u8) -> u8 {
    number << 3 | 2
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(end + 1)?;
    let value = number.iter().rev().fold(0_usize, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_added_to_the_object_in_the_envelope() {
        let object = field(METADATA, &field(1, b"web"));
        let envelope = [MAGIC, &field(1, b"type"), &field(RAW, &object)].concat();
        let entry = [field(1, b"k"), field(2, b"\xff")].concat();
        let longer = [object, field(METADATA, &field(ANNOTATIONS, &entry))].concat();
        let expected = [MAGIC, &field(1, b"type"), &field(RAW, &longer)].concat();
        assert_eq!(annotated(&envelope, "k", b"\xff"), Some(expected));
        assert_eq!(annotated(b"{}", "k", b""), None);
        assert_eq!(varint(&field(1, &[0; 300])[1..]).unwrap().0, 300);
    }
}
