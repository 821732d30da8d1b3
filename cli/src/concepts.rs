//! The words that Sluice uses, for `sluice concepts`.

/// One paragraph per word, at most 110 columns.
pub const CONCEPTS: &str = "\
round      One exchange of a job's tensors: from the moment the first flow has something to send until the
           last one is done. A training step has one round, sometimes two.
slot       Time is cut into slots (60 ms by default), the same on all hosts: slot = clock / length.
           In each slot every flow has one rate, its order.
horizon    How many slots ahead plans reach (10). Every host tells the keepers of the links on its paths the
           rates it intends for these slots.
order      The rate the kernel holds a flow to. It carries its own expiry (3 slots): if the daemon stops, the
           kernel gives the socket back to ordinary congestion control. Nothing ever blocks.
switch     Keeps a load table of its links: who promised what, per slot. Only sums; it decides nothing.
peer       Where no switch keeps a table, each host keeps that of its own receiving link.
view       What a host knows of a link: fresh, holding, decaying, local, or plain. Old news counts less and less;
           silence is never read as zero.
lease      A promise that is not repeated is forgotten by the switch after 2 slots.
headroom   What is left of a link after the promises of rounds that go first.
rank       The order of rounds on a link: least remaining time first; a round that waited long goes first.
floor      A flow that must wait still gets a little (1 % of its path, at least 10 Mbit/s), so that nothing
           times out.
cross      Traffic that is not of a known job. It is measured and left alone.
ordered, delivered
           What was asked for, and what the other end acknowledged. `error` is their distance.
mode       observe: look and plan, enforce nothing. active: everything. bypass: give everything back.
condition  Something that is wrong now, with a code, a cost and a next step. See: sluice status
";
