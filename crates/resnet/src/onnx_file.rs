//! Writes ONNX files, as far as the conversion and tests need it, in protocol buffers.

/// The value of an attribute.
pub enum Attribute<'a> {
    /// One number.
    Int(i64),
    /// A list of numbers.
    Ints(&'a [i64]),
}

/// A network that is being written.
pub struct OnnxFile {
    graph: Message,
}

impl OnnxFile {
    /// An empty network with a name.
    pub fn new(name: &str) -> Self {
        let mut graph = Message::default();
        graph.bytes(2, name.as_bytes());
        Self { graph }
    }

    /// Declares the input and its shape.
    pub fn input(&mut self, name: &str, shape: &[usize]) {
        self.graph.bytes(11, &value_info(name, shape).0);
    }

    /// Declares the output and its shape.
    pub fn output(&mut self, name: &str, shape: &[usize]) {
        self.graph.bytes(12, &value_info(name, shape).0);
    }

    /// Adds weights.
    pub fn tensor(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let mut tensor = Message::default();
        for side in shape {
            tensor.number(1, len(*side));
        }
        tensor.number(2, FLOAT);
        tensor.bytes(8, name.as_bytes());
        let raw: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        tensor.bytes(9, &raw);
        self.graph.bytes(5, &tensor.0);
    }

    /// Adds an operator. Its output has the name of the node.
    pub fn node(
        &mut self,
        operator: &str,
        name: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node.bytes(1, input.as_bytes());
        }
        node.bytes(2, name.as_bytes());
        node.bytes(3, name.as_bytes());
        node.bytes(4, operator.as_bytes());
        for (name, value) in attributes {
            let mut attribute = Message::default();
            attribute.bytes(1, name.as_bytes());
            match value {
                Attribute::Int(value) => {
                    attribute.number(3, value.cast_unsigned());
                    attribute.number(20, 2);
                }
                Attribute::Ints(values) => {
                    for value in *values {
                        attribute.number(8, value.cast_unsigned());
                    }
                    attribute.number(20, 7);
                }
            }
            node.bytes(5, &attribute.0);
        }
        self.graph.bytes(1, &node.0);
    }

    /// The bytes of the file.
    pub fn finish(self) -> Vec<u8> {
        let mut operators = Message::default();
        operators.bytes(1, b"");
        operators.number(2, 17);
        let mut model = Message::default();
        model.number(1, 8);
        model.bytes(2, b"steadfast");
        model.bytes(8, &operators.0);
        model.bytes(7, &self.graph.0);
        model.0
    }
}

/// The kind of numbers: 32 bits, floating.
const FLOAT: u64 = 1;

fn value_info(name: &str, shape: &[usize]) -> Message {
    let mut sides = Message::default();
    for side in shape {
        let mut dimension = Message::default();
        dimension.number(1, len(*side));
        sides.bytes(1, &dimension.0);
    }
    let mut tensor = Message::default();
    tensor.number(1, FLOAT);
    tensor.bytes(2, &sides.0);
    let mut kind = Message::default();
    kind.bytes(1, &tensor.0);
    let mut info = Message::default();
    info.bytes(1, name.as_bytes());
    info.bytes(2, &kind.0);
    info
}

fn len(len: usize) -> u64 {
    len as u64
}

/// A message of protocol buffers: fields with their numbers in front.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(len(value.len()));
        self.0.extend_from_slice(value);
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let low = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}
