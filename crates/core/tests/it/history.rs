//! Linearizability: is there one order of all operations that explains every reply?
//!
//! The search of Wing and Gong, with Lowe's memory of tried states. It is quick as long as few
//! operations stay unknown: each different one may double its work.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::{self, Debug},
    hash::Hash,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The behaviour of an object when its operations are sequential.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Op: Clone + Debug + PartialEq;
    type Reply: PartialEq + Debug;

    fn initial() -> Self::State;
    fn apply(state: &Self::State, op: &Self::Op) -> (Self::State, Self::Reply);
}

/// One operation as its caller saw it. Without a return it may take effect at any time after its
/// call, or never.
pub(crate) struct Operation<M: Model> {
    pub(crate) op: M::Op,
    pub(crate) called: u64,
    pub(crate) returned: Option<(u64, M::Reply)>,
}

impl<M: Model> Debug for Operation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.returned {
            Some((at, reply)) => write!(f, "{}..{at} {:?} -> {reply:?}", self.called, self.op),
            None => write!(f, "{}..? {:?}", self.called, self.op),
        }
    }
}

/// An order that explains the history, or `None`. Operations without a return may be missing in it.
pub(crate) fn linearization<M: Model>(history: &[Operation<M>]) -> Option<Vec<usize>> {
    assert!(history.len() <= 64, "{} operations: the search takes up to 64", history.len());
    let mut tries: Vec<usize> = (0..history.len()).collect();
    tries.sort_by_key(|&index| end(&history[index]));
    let known = tries.iter().filter(|&&index| history[index].returned.is_some());
    let due = known.fold(0, |due, index| due | 1 << index);
    let mut search = Search { history, due, tries, seen: HashSet::new(), order: Vec::new() };
    search.explains_the_rest(0, &M::initial()).then_some(search.order)
}

struct Search<'a, M: Model> {
    history: &'a [Operation<M>],
    /// The operations with a return: all of them have to be placed.
    due: u64,
    /// The order in which operations are tried: the first to return first, the unknown last.
    tries: Vec<usize>,
    /// The states that were tried: the operations placed, and the state after them.
    seen: HashSet<(u64, M::State)>,
    order: Vec<usize>,
}

impl<M: Model> Search<'_, M> {
    /// Can the operations that are not yet `placed` follow in this state? If they can, `order` has
    /// them.
    fn explains_the_rest(&mut self, placed: u64, state: &M::State) -> bool {
        if placed & self.due == self.due {
            return true;
        }
        if !self.seen.insert((placed, state.clone())) {
            return false;
        }
        for index in self.candidates(placed) {
            let it = &self.history[index];
            let (next, reply) = M::apply(state, &it.op);
            let fits = match &it.returned {
                Some((_, seen)) => *seen == reply,
                // No caller saw the reply, so without an effect it explains nothing.
                None => next != *state,
            };
            if fits {
                self.order.push(index);
                if self.explains_the_rest(placed | 1 << index, &next) {
                    return true;
                }
                self.order.pop();
            }
        }
        false
    }

    /// The candidates: called before any remaining operation has returned.
    fn candidates(&self, placed: u64) -> Vec<usize> {
        let (mut found, mut first_end) = (Vec::new(), None);
        for index in self.tries.iter().copied().filter(|index| placed & 1 << index == 0) {
            let it = &self.history[index];
            let in_time = it.called <= *first_end.get_or_insert(end(it));
            // One of several equal unknown operations is enough.
            let mut others = found.iter().map(|&other: &usize| &self.history[other]);
            let equal = |other: &Operation<M>| other.returned.is_none() && other.op == it.op;
            if in_time && (it.returned.is_some() || !others.any(equal)) {
                found.push(index);
            }
        }
        found
    }
}

fn end<M: Model>(operation: &Operation<M>) -> u64 {
    operation.returned.as_ref().map_or(u64::MAX, |it| it.0)
}

/// Records the operations of concurrent callers. Its clock counts calls and returns.
pub(crate) struct Recorder<M: Model> {
    clock: AtomicU64,
    /// By the time of the call, which is also the ticket.
    operations: Mutex<BTreeMap<u64, Operation<M>>>,
}

/// An operation in flight. If it is dropped, its outcome stays unknown.
pub(crate) struct Ticket(u64);

impl<M: Model> Recorder<M> {
    pub(crate) fn new() -> Self {
        Self { clock: AtomicU64::new(0), operations: Mutex::default() }
    }

    /// To be called before the operation is sent.
    pub(crate) fn begin(&self, op: M::Op) -> Ticket {
        let called = self.tick();
        self.operations().insert(called, Operation { op, called, returned: None });
        Ticket(called)
    }

    /// To be called after the reply. After `finish` it does nothing.
    pub(crate) fn end(&self, ticket: Ticket, reply: M::Reply) {
        let at = self.tick();
        if let Some(it) = self.operations().get_mut(&ticket.0) {
            it.returned = Some((at, reply));
        }
    }

    /// The operation has definitely failed: it never takes effect.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.operations().remove(&ticket.0);
    }

    /// The history in the order of the calls. The recorder is empty after it.
    pub(crate) fn finish(&self) -> Vec<Operation<M>> {
        mem::take(&mut *self.operations()).into_values().collect()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A caller that panicked leaves a whole map behind: every change is one step.
    fn operations(&self) -> MutexGuard<'_, BTreeMap<u64, Operation<M>>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that starts at 0.
pub(crate) struct Counter;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CounterOp {
    Add(i64),
    Read,
    Cas { expected: i64, new: i64 },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CounterReply {
    /// To `Add` and `Read`: the value after it.
    Value(i64),
    /// To `Cas`: whether the value was the expected one and is now the new one.
    Swapped(bool),
}

impl Model for Counter {
    type State = i64;
    type Op = CounterOp;
    type Reply = CounterReply;

    fn initial() -> i64 {
        0
    }

    fn apply(state: &i64, op: &CounterOp) -> (i64, CounterReply) {
        match *op {
            CounterOp::Add(amount) => (state + amount, CounterReply::Value(state + amount)),
            CounterOp::Read => (*state, CounterReply::Value(*state)),
            CounterOp::Cas { expected, new } => {
                let swapped = expected == *state;
                (if swapped { new } else { *state }, CounterReply::Swapped(swapped))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, mem, sync::Mutex, thread};

    use steadfast_core::store::{Entropy, SeededEntropy};

    use super::{
        Counter,
        CounterOp::{self, Add, Cas, Read},
        CounterReply::{self, Swapped, Value},
        Model, Operation, Recorder, Ticket, end, linearization,
    };

    fn known(called: u64, at: u64, op: CounterOp, reply: CounterReply) -> Operation<Counter> {
        Operation { op, called, returned: Some((at, reply)) }
    }

    fn unknown(called: u64, op: CounterOp) -> Operation<Counter> {
        Operation { op, called, returned: None }
    }

    fn read(called: u64, value: i64) -> Operation<Counter> {
        known(called, called + 1, Read, Value(value))
    }

    fn accepted(history: &[Operation<Counter>]) -> Vec<usize> {
        let order = linearization(history).unwrap_or_else(|| panic!("refused: {history:#?}"));
        assert!(explains(history, &order), "{order:?} does not explain {history:#?}");
        order
    }

    fn refused(history: &[Operation<Counter>]) {
        assert_eq!(linearization(history), None, "{history:#?}");
    }

    fn take_effect(state: &mut i64, op: &CounterOp) -> CounterReply {
        let (next, reply) = Counter::apply(state, op);
        *state = next;
        reply
    }

    /// The definition itself, without any search.
    fn explains(history: &[Operation<Counter>], order: &[usize]) -> bool {
        let (mut state, mut last_call) = (Counter::initial(), 0);
        for it in order.iter().map(|&index| &history[index]) {
            last_call = last_call.max(it.called);
            let reply = take_effect(&mut state, &it.op);
            if end(it) < last_call || it.returned.as_ref().is_some_and(|seen| seen.1 != reply) {
                return false;
            }
        }
        (0..history.len()).all(|it| history[it].returned.is_none() || order.contains(&it))
    }

    /// Tries every continuation of this order.
    fn some_order_explains(history: &[Operation<Counter>], order: &[usize]) -> bool {
        let mut left = (0..history.len()).filter(|it| !order.contains(it));
        explains(history, order)
            || left.any(|it| some_order_explains(history, &[order, &[it]].concat()))
    }

    #[test]
    fn one_after_the_other_is_accepted_in_that_order() {
        let history = [
            known(0, 1, Add(2), Value(2)),
            known(2, 3, Cas { expected: 2, new: 7 }, Swapped(true)),
            known(4, 5, Cas { expected: 2, new: 9 }, Swapped(false)),
            known(6, 7, Read, Value(7)),
        ];
        assert_eq!(accepted(&history), [0, 1, 2, 3]);
        assert!(accepted(&[]).is_empty());
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_any_order() {
        let history = [
            known(0, 9, Add(1), Value(3)),
            known(1, 8, Add(2), Value(2)),
            read(2, 0),
            known(4, 7, Read, Value(2)),
        ];
        assert_eq!(accepted(&history), [2, 1, 3, 0]);
    }

    #[test]
    fn threads_on_one_atomic_object_are_accepted() {
        let (recorder, value) = (Recorder::<Counter>::new(), Mutex::new(0));
        thread::scope(|scope| {
            for amount in 1..=8 {
                let (recorder, value) = (&recorder, &value);
                scope.spawn(move || {
                    for op in [Add(amount), Read, Cas { expected: amount, new: 0 }, Add(1)] {
                        let ticket = recorder.begin(op.clone());
                        let reply = take_effect(&mut value.lock().unwrap(), &op);
                        recorder.end(ticket, reply);
                    }
                });
            }
        });
        assert_eq!(accepted(&recorder.finish()).len(), 32);
    }

    #[test]
    fn an_unknown_add_may_show_at_once_or_late_or_never() {
        assert_eq!(accepted(&[unknown(0, Add(5)), read(1, 5), read(3, 5)]), [0, 1, 2]);
        assert_eq!(accepted(&[unknown(0, Add(5)), read(1, 0), read(3, 5)]), [1, 0, 2]);
        assert_eq!(accepted(&[unknown(0, Add(5)), read(1, 0), read(3, 0)]), [1, 2]);
        assert!(accepted(&[unknown(0, Add(5))]).is_empty());
    }

    #[test]
    fn an_unknown_add_that_vanishes_again_is_refused() {
        refused(&[unknown(0, Add(5)), read(1, 5), read(3, 0)]);
        refused(&[unknown(0, Add(5)), read(1, 5), read(3, 0), read(5, 5)]);
        refused(&[unknown(0, Add(5)), read(1, 5), read(3, 10)]);
        accepted(&[unknown(0, Add(5)), unknown(0, Add(5)), read(1, 5), read(3, 10)]);
    }

    #[test]
    fn an_effect_before_its_call_is_refused() {
        refused(&[read(0, 5), unknown(2, Add(5))]);
        refused(&[read(0, 5), known(2, 3, Add(5), Value(5))]);
    }

    #[test]
    fn a_stale_read_after_a_completed_write_is_refused() {
        refused(&[known(0, 1, Add(1), Value(1)), read(2, 0)]);
        accepted(&[known(0, 2, Add(1), Value(1)), known(1, 3, Read, Value(0))]);
        accepted(&[known(0, 2, Add(1), Value(1)), read(2, 0)]);
    }

    #[test]
    fn a_lost_update_is_refused_even_among_overlapping_callers() {
        refused(&[known(0, 2, Add(1), Value(1)), known(1, 3, Add(1), Value(1))]);
        let cas = |called, at| known(called, at, Cas { expected: 0, new: 1 }, Swapped(true));
        refused(&[cas(0, 2), cas(1, 3)]);
    }

    #[test]
    fn a_newer_value_and_then_an_older_one_is_refused() {
        let add = || known(0, 9, Add(1), Value(1));
        refused(&[add(), read(1, 1), read(3, 0)]);
        accepted(&[add(), known(1, 3, Read, Value(1)), known(2, 4, Read, Value(0))]);
    }

    #[test]
    fn a_recorder_distinguishes_ended_unknown_and_forgotten_operations() {
        let recorder = Recorder::<Counter>::new();
        let [first, second, third] = [Add(1), Add(2), Read].map(|op| recorder.begin(op));
        recorder.end(first, Value(1));
        recorder.forget(second);
        let seen = format!("{:?}", recorder.finish());
        assert_eq!(seen, "[0..3 Add(1) -> Value(1), 2..? Read]");
        recorder.end(third, Value(1));
        assert!(recorder.finish().is_empty());
    }

    fn some_op(chance: &SeededEntropy) -> CounterOp {
        let below = |limit| (chance.next() % limit) as i64;
        match below(6) {
            0 | 1 => Read,
            2 => Cas { expected: below(6), new: below(6) },
            _ => Add(1 + below(5)),
        }
    }

    /// The history of an atomic counter with randomly interleaved callers that are sometimes
    /// killed.
    fn simulated(chance: &SeededEntropy, callers: u64, steps: usize) -> Vec<Operation<Counter>> {
        let one_in = |many| chance.next().is_multiple_of(many);
        let recorder = Recorder::<Counter>::new();
        let mut under_way = BTreeMap::<u64, (CounterOp, Ticket, Option<CounterReply>)>::new();
        let (mut value, mut late) = (0, Vec::new());
        for _ in 0..steps {
            if one_in(40) {
                let killed = mem::take(&mut under_way).into_values();
                late.extend(killed.filter_map(|(op, _, reply)| reply.is_none().then_some(op)));
            }
            if let Some(op) = late.pop_if(|_| one_in(10)) {
                take_effect(&mut value, &op);
            }
            let caller = chance.next() % callers;
            match under_way.remove(&caller) {
                None => {
                    let op = some_op(chance);
                    let ticket = recorder.begin(op.clone());
                    under_way.insert(caller, (op, ticket, None));
                }
                Some((_, ticket, Some(reply))) => recorder.end(ticket, reply),
                Some((_, ticket, None)) if one_in(20) => recorder.forget(ticket),
                Some((op, ticket, None)) => {
                    let reply = take_effect(&mut value, &op);
                    under_way.insert(caller, (op, ticket, Some(reply)));
                }
            }
        }
        recorder.finish()
    }

    /// Changes the value that one operation saw. Returns whether the chosen one saw any.
    fn change(history: &mut [Operation<Counter>], chance: &SeededEntropy, by: i64) -> bool {
        let chosen = chance.next() as usize % history.len();
        let Some((_, Value(value))) = &mut history[chosen].returned else { return false };
        *value += by;
        true
    }

    /// Runs with this many seeds, and prints them.
    fn each_seed(runs: u64, mut run: impl FnMut(&SeededEntropy)) {
        let any = |_| SeededEntropy::from_system().next() % 1_000_000;
        let given = std::env::var("STEADFAST_TEST_SEED");
        let base = given.map_or_else(any, |seed| seed.parse().expect("a number"));
        for seed in base..base + runs {
            eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
            run(&SeededEntropy::new(seed));
        }
    }

    #[test]
    fn an_atomic_counter_is_accepted_and_with_one_reply_changed_mostly_refused() {
        let (mut changed, mut refusals) = (0, 0);
        each_seed(200, |chance| {
            let mut history = simulated(chance, 5, 100);
            accepted(&history);
            if change(&mut history, chance, 1) {
                changed += 1;
                refusals += usize::from(linearization(&history).is_none());
            }
            // No sum of amounts comes near it.
            if change(&mut history, chance, 1_000_000) {
                refused(&history);
            }
        });
        assert!(refusals * 2 > changed, "refused {refusals} of {changed}");
    }

    #[test]
    fn the_search_agrees_with_trying_every_order() {
        each_seed(300, |chance| {
            let mut history = simulated(chance, 3, 16);
            history.truncate(6);
            change(&mut history, chance, (chance.next() % 3) as i64 - 1);
            let explained = some_order_explains(&history, &[]);
            assert_eq!(linearization(&history).is_some(), explained, "{history:#?}");
        });
    }
}
