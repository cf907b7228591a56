//! A workload of the code generator of cranelift: functions with loops and branches are built and compiled for the
//! host. `cargo xtask bench whole` builds it beside the generator's sources.

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_codegen::settings::Configurable;
use cranelift_codegen::{Context, settings};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

fn main() {
    let functions: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of functions");
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").expect("a setting");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let builder = cranelift_codegen::isa::lookup_by_name(&target).expect("a target");
    let isa = builder
        .finish(settings::Flags::new(flags))
        .expect("a generator");
    let mut frontend = FunctionBuilderContext::new();
    let mut bytes = 0;
    for number in 0..functions {
        bytes += compile(&*isa, &mut frontend, number);
    }
    println!("{bytes} bytes");
}

/// Eight loops one after the other, each with a branch inside.
fn compile(isa: &dyn TargetIsa, frontend: &mut FunctionBuilderContext, number: u32) -> usize {
    let mut signature = Signature::new(CallConv::SystemV);
    signature
        .params
        .extend([AbiParam::new(I64), AbiParam::new(I64)]);
    signature.returns.push(AbiParam::new(I64));
    let mut function = Function::with_name_signature(UserFuncName::user(0, number), signature);
    let mut builder = FunctionBuilder::new(&mut function, frontend);
    let start = builder.create_block();
    builder.append_block_params_for_function_params(start);
    builder.switch_to_block(start);
    let [limit, factor] = [
        builder.block_params(start)[0],
        builder.block_params(start)[1],
    ];
    let [at, sum] = [builder.declare_var(I64), builder.declare_var(I64)];
    let zero = builder.ins().iconst(I64, i64::from(number));
    builder.def_var(sum, zero);
    for step in 1..=8 {
        let [head, body, odd, even, end] = std::array::from_fn(|_| builder.create_block());
        let first = builder.ins().iconst(I64, 0);
        builder.def_var(at, first);
        builder.ins().jump(head, &[]);
        builder.switch_to_block(head);
        let now = builder.use_var(at);
        let is_below = builder.ins().icmp(IntCC::SignedLessThan, now, limit);
        builder.ins().brif(is_below, body, &[], end, &[]);
        builder.switch_to_block(body);
        let one = builder.ins().iconst(I64, 1);
        let bit = builder.ins().band(now, one);
        builder.ins().brif(bit, odd, &[], even, &[]);
        for (block, is_odd) in [(odd, true), (even, false)] {
            builder.switch_to_block(block);
            let before = builder.use_var(sum);
            let product = builder.ins().imul(now, factor);
            let after = match is_odd {
                true => builder.ins().iadd(before, product),
                false => builder.ins().isub(before, product),
            };
            let step = builder.ins().iconst(I64, step);
            let after = builder.ins().iadd(after, step);
            builder.def_var(sum, after);
            let next = builder.ins().iadd(now, one);
            builder.def_var(at, next);
            builder.ins().jump(head, &[]);
        }
        builder.switch_to_block(end);
    }
    let result = builder.use_var(sum);
    builder.ins().return_(&[result]);
    builder.seal_all_blocks();
    builder.finalize(isa.frontend_config());
    let mut context = Context::for_function(function);
    let code = context.compile(isa, &mut ControlPlane::default());
    code.unwrap_or_else(|error| panic!("{:?}", error.inner))
        .code_buffer()
        .len()
}
