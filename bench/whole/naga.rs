//! A workload of the shader translator naga: a generated shader is parsed, validated and written as SPIR-V, a number of
//! times. `cargo xtask bench whole` builds it beside the library's sources.

use std::fmt::Write;

use naga::back::spv;
use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn main() {
    let times: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of times");
    let text = shader();
    let mut words = 0;
    for _ in 0..times {
        let module = wgsl::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
        let info = validator
            .validate(&module)
            .unwrap_or_else(|error| panic!("{error:?}"));
        let written = spv::write_vec(&module, &info, &spv::Options::default(), None);
        words += written.unwrap_or_else(|error| panic!("{error}")).len();
    }
    println!("{words} words");
}

fn shader() -> String {
    let mut text = "struct Body { position: vec3<f32>, mass: f32 }
@group(0) @binding(0) var<storage, read_write> bodies: array<Body>;
"
    .to_owned();
    for number in 0..100 {
        let _ = write!(
            text,
            "fn force{number}(a: vec3<f32>, b: vec3<f32>, mass: f32) -> vec3<f32> {{
    let between = b - a;
    var squared = dot(between, between) + {number}.25;
    for (var step = 0; step < {}; step++) {{
        if (squared > 100.0) {{ squared = squared * 0.5; }} else {{ squared = squared + f32(step); }}
    }}
    return normalize(between) * mass / squared;
}}
",
            number % 5 + 1
        );
    }
    text += "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = id.x;
    var sum = vec3<f32>(0.0);
";
    for number in 0..100 {
        let _ = writeln!(
            text,
            "    sum += force{number}(bodies[at].position, bodies[{number}].position, bodies[{number}].mass);"
        );
    }
    text + "    bodies[at].position += sum;\n}\n"
}
