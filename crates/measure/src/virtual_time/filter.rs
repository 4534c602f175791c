//! A seccomp filter that stops at given system calls and lets all others pass.

/// An instruction of classic BPF, the language of such filters.
pub type Instruction = libc::sock_filter;

/// Offsets in `struct seccomp_data`: the call's number and the architecture.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// `AUDIT_ARCH_X86_64`: on other architectures the numbers mean other calls.
const ARCHITECTURE: u32 = 0xc000_003e;

pub fn stopping_at(calls: &[libc::c_long]) -> Vec<Instruction> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let is_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
    let mut filter = vec![
        plain(load, ARCHITECTURE_OFFSET),
        Instruction { code: is_equal, jt: 1, jf: 0, k: ARCHITECTURE },
        plain(give, libc::SECCOMP_RET_ALLOW),
        plain(load, NUMBER_OFFSET),
    ];
    for (place, &call) in calls.iter().enumerate() {
        // Jumps to the last instruction, past the remaining comparisons and the one that allows.
        let to_stop = (calls.len() - place) as u8;
        filter.push(Instruction { code: is_equal, jt: to_stop, jf: 0, k: call as u32 });
    }
    filter.push(plain(give, libc::SECCOMP_RET_ALLOW));
    filter.push(plain(give, libc::SECCOMP_RET_TRACE));
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates the filter for a call.
    fn given(filter: &[Instruction], architecture: u32, call: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction { code, jt, jf, k } = filter[at];
            at += 1;
            match u32::from(code) & 0x07 {
                libc::BPF_LD => loaded = if k == NUMBER_OFFSET { call } else { architecture },
                libc::BPF_JMP => at += usize::from(if loaded == k { jt } else { jf }),
                _ => return k,
            }
        }
    }

    #[test]
    fn it_stops_at_its_calls_alone() {
        let filter = stopping_at(&[35, 228, 318]);
        for call in 0..400 {
            let is_traced = [35, 228, 318].contains(&call);
            let expected = if is_traced { libc::SECCOMP_RET_TRACE } else { libc::SECCOMP_RET_ALLOW };
            assert_eq!(given(&filter, ARCHITECTURE, call), expected, "{call}");
        }
        assert_eq!(given(&filter, 0x4000_0003, 228), libc::SECCOMP_RET_ALLOW);
    }
}
