//! One order of all calls explains the replies of every caller, although the process is killed and
//! restarted.

use steadfast_core::store::{Entropy, SeededEntropy, crash::COMMIT_POINTS};

use crate::{
    history::{Counter, CounterOp, CounterReply, Recorder, Ticket, linearization},
    killer::{Victim, chance, soak},
    postgres,
};

/// Concurrent histories: one kill interrupts all of them.
const REGISTERS: usize = 8;
/// Callers of each register.
const CALLERS: usize = 4;
/// Processes, one after the other.
const LIVES: usize = 4;
/// Calls to a register in each process. The search takes 64 in all.
const CALLS: usize = 14;

/// A call in flight.
struct Call {
    op: CounterOp,
    key: String,
    ticket: Ticket,
}

/// One register, and the history of its callers.
struct Register {
    name: String,
    /// With keys, calls in flight at a kill are repeated; without, their outcomes stay unknown.
    keyed: bool,
    history: Recorder<Counter>,
    callers: [Option<Call>; CALLERS],
    calls: usize,
    /// The last value seen, so that some swaps succeed.
    value: i64,
}

impl Register {
    fn new(name: String, keyed: bool) -> Self {
        let (history, callers) = (Recorder::new(), Default::default());
        Self { name, keyed, history, callers, calls: 0, value: 0 }
    }

    fn some_op(&self, chance: &SeededEntropy) -> CounterOp {
        let below = |limit| (chance.next() % limit) as i64;
        match below(6) {
            0 | 1 => CounterOp::Read,
            2 => CounterOp::Cas { expected: self.value, new: below(100) },
            _ => CounterOp::Add(1 + below(5)),
        }
    }

    fn begin(&mut self, caller: usize, op: CounterOp) {
        self.calls += 1;
        let key = if self.keyed { format!("{caller}-{}", self.calls) } else { "-".into() };
        let ticket = self.history.begin(op.clone());
        self.callers[caller] = Some(Call { op, key, ticket });
    }

    /// Sends the call of a caller.
    fn send(&self, victim: &mut Victim, register: usize, caller: usize) {
        let Some(Call { op, key, .. }) = &self.callers[caller] else { return };
        let message = match op {
            CounterOp::Add(by) => format!("add {by}"),
            CounterOp::Read => "read null".into(),
            CounterOp::Cas { expected, new } => format!("cas [{expected},{new}]"),
        };
        victim.tell(&format!("{} {} {key} {message}", register * CALLERS + caller, self.name));
    }

    fn heard(&mut self, caller: usize, reply: &str) {
        let call = self.callers[caller].take().expect("a call is in flight");
        let reply = match call.op {
            CounterOp::Cas { .. } => CounterReply::Swapped(reply.parse().expect("a bool")),
            CounterOp::Add(_) | CounterOp::Read => {
                self.value = reply.parse().expect("a number");
                CounterReply::Value(self.value)
            }
        };
        self.history.end(call.ticket, reply);
    }

    /// The calls in flight when the process has ended.
    fn process_ended(&mut self) {
        if !self.keyed {
            self.callers = Default::default();
        }
    }

    fn check(&self) -> usize {
        let history = self.history.finish();
        let explained = linearization(&history).is_some();
        assert!(explained, "no order explains register {}: {history:#?}", self.name);
        history.len()
    }
}

/// One process: calls in flight are sent again, then callers make this many calls to each register,
/// until the process ends or is killed after this many replies.
fn live(
    victim: &mut Victim,
    registers: &mut [Register],
    chance: &SeededEntropy,
    calls: usize,
    replies: usize,
) {
    let limits: Vec<usize> = registers.iter().map(|it| it.calls + calls).collect();
    for (index, register) in registers.iter().enumerate() {
        (0..CALLERS).for_each(|caller| register.send(victim, index, caller));
    }
    let (mut heard, mut killed) = (0, false);
    loop {
        for (index, register) in registers.iter_mut().enumerate().filter(|_| !killed) {
            for caller in 0..CALLERS {
                if register.callers[caller].is_none() && register.calls < limits[index] {
                    register.begin(caller, register.some_op(chance));
                    register.send(victim, index, caller);
                }
            }
        }
        if registers.iter().all(|it| it.callers.iter().all(Option::is_none)) {
            return;
        }
        if heard == replies && !killed {
            victim.kill();
            killed = true;
        }
        let Some(line) = victim.line() else { return };
        let Some((call, reply)) = line.split_once(' ') else { continue };
        let call: usize = call.parse().unwrap_or_else(|_| panic!("unexpected line {line}"));
        registers[call / CALLERS].heard(call % CALLERS, reply);
        heard += 1;
    }
}

fn one_order_explains_everything(place: &str, rounds: usize) {
    let chance = chance();
    let below = |limit: usize| (chance.next() % limit as u64) as usize;
    let mut calls = 0;
    for round in 0..rounds {
        let mut registers: Vec<Register> =
            (0..REGISTERS).map(|it| Register::new(format!("{round}-{it}"), it % 2 == 0)).collect();
        for _ in 1..LIVES {
            // From outside after some replies, or from inside at a point of a commit.
            let point = COMMIT_POINTS[below(COMMIT_POINTS.len())];
            let at = (below(2) == 0).then(|| format!("{point}:{}", 1 + below(20)));
            let mut victim = Victim::start(place, &["serve"], at.as_deref());
            let replies = if at.is_some() { usize::MAX } else { below(REGISTERS * CALLS) };
            live(&mut victim, &mut registers, &chance, CALLS, replies);
            drop(victim);
            registers.iter_mut().for_each(Register::process_ended);
        }
        let mut victim = Victim::start(place, &["serve"], None);
        live(&mut victim, &mut registers, &chance, CALLS, usize::MAX);
        registers.iter_mut().for_each(|it| it.begin(0, CounterOp::Read));
        live(&mut victim, &mut registers, &chance, 0, usize::MAX);
        calls += registers.iter().map(Register::check).sum::<usize>();
    }
    let (histories, kills) = (rounds * REGISTERS, rounds * (LIVES - 1));
    eprintln!("{histories} histories of {calls} calls and {kills} kills, each explained");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_explains_all_replies_over_kills_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    one_order_explains_everything(folder.path().to_str().unwrap(), 5 * soak());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_explains_all_replies_over_kills_on_postgres() {
    one_order_explains_everything(&postgres::schema().await, 2 * soak());
}
