//! Walking a stack by the unwind tables. Pure but for the tables, which are read where they are mapped.
//!
//! Allocates nothing: the sampling allocator calls it. Whatever the tables or the stack say, a walk ends: each
//! frame has to lie above the one before, and memory is read only through `read`.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};

use super::objects::Object;
use super::registers::Registers;

type Bytes = EndianSlice<'static, NativeEndian>;

/// One loaded object, ready to be looked up in.
pub(super) struct Module {
    object: Object,
    index: ParsedEhFrameHdr<Bytes>,
    frames: EhFrame<Bytes>,
    bases: BaseAddresses,
}

/// Rows of unwind tables, kept in place instead of on the heap.
struct InPlace;

impl UnwindContextStorage<usize> for InPlace {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// The modules whose tables can be used, of `objects`.
pub(super) fn modules(objects: Vec<Object>) -> Vec<Module> {
    objects.into_iter().filter_map(Module::new).collect()
}

impl Module {
    fn new(object: Object) -> Option<Module> {
        let at = object.index.as_ptr() as usize;
        let bases = BaseAddresses::default().set_eh_frame_hdr(at as u64).set_text(object.code.start as u64);
        let index = EhFrameHdr::new(object.index, NativeEndian);
        let index = index.parse(&bases, size_of::<usize>() as u8).ok()?;
        let start = index.eh_frame_ptr().direct().ok()? as usize;
        if !object.tables.contains(&start) {
            return None;
        }
        // SAFETY: the range lies in a readable segment of an object that is not unmapped; see `Object`.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, object.tables.end - start) };
        let frames = EhFrame::new(bytes, NativeEndian);
        Some(Module { object, index, frames, bases: bases.set_eh_frame(start as u64) })
    }
}

/// Fill `found` with the addresses of the calls that led here, the innermost first, and say how many there are.
///
/// For callers this is the address just before the one to return to, so that it lies in the call.
pub(super) fn walk(
    modules: &[Module],
    mut registers: Registers,
    read: impl Fn(usize) -> Option<usize>,
    found: &mut [usize],
) -> usize {
    let mut context = UnwindContext::<usize, InPlace>::new_in();
    let mut count = 0;
    for place in found {
        let address = if count == 0 { registers.pc } else { registers.pc.wrapping_sub(1) };
        *place = address;
        count += 1;
        match caller(modules, &registers, address, &read, &mut context) {
            // A function that has no frame yet has its caller's; that can only be the innermost.
            Some(next) if next.stack_pointer() > registers.stack_pointer() || count == 1 => registers = next,
            _ => break,
        }
    }
    count
}

fn caller(
    modules: &[Module],
    registers: &Registers,
    address: usize,
    read: &impl Fn(usize) -> Option<usize>,
    context: &mut UnwindContext<usize, InPlace>,
) -> Option<Registers> {
    let module = modules.iter().find(|module| module.object.code.contains(&address))?;
    let (frames, bases) = (&module.frames, &module.bases);
    let table = module.index.table()?;
    let entry = table.fde_for_address(frames, bases, address as u64, EhFrame::cie_from_offset).ok()?;
    let row = entry.unwind_info_for_address(frames, bases, context, address as u64).ok()?;
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(usize::from(register.0))?.wrapping_add_signed(*offset as isize)
        }
        CfaRule::Expression(_) => return None,
    };
    let mut next = *registers;
    for (register, rule) in row.registers() {
        let number = usize::from(register.0);
        let value = match rule {
            RegisterRule::SameValue => registers.get(number),
            RegisterRule::Offset(offset) => read(frame.wrapping_add_signed(*offset as isize)),
            RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset as isize)),
            RegisterRule::Register(other) => registers.get(usize::from(other.0)),
            _ => None,
        };
        next.set(number, value);
    }
    next.set(Registers::STACK_POINTER, Some(frame));
    next.pc = next.get(usize::from(entry.cie().return_address_register().0)).filter(|pc| *pc != 0)?;
    Some(next)
}
