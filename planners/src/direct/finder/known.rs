//! Graphs that were found by search and are better than what the rules give. Their values are computed like all others.

/// Directed circulants with the least time in few steps, and Cayley graphs of metacyclic groups with few steps.
pub const FOUND: [&str; 16] = [
    "DC(8,{1,3})",
    "DC(16,{3,5})",
    "DC(64,{1,29,49,60})",
    "DC(128,{1,57,111,118})",
    "DC(256,{1,72,99,104})",
    "DC(512,{8,299,325,337})",
    "DC(1024,{1,340,830,1007})",
    "MC(8,2,3,4;(5,0),(0,1))",
    "MC(16,4,13,0;(13,1),(5,0),(11,2),(14,3))",
    "MC(8,2,7,0;(6,0),(1,0),(7,1),(2,1))",
    "MC(8,4,7,0;(1,2),(2,2),(3,1),(6,3))",
    "MC(32,2,17,16;(7,0),(10,0),(17,1),(28,1))",
    "MC(32,4,7,0;(1,0),(13,1),(18,1),(19,2))",
    "MC(32,8,7,16;(2,6),(8,7),(15,3),(25,6))",
    "MC(32,16,23,16;(4,9),(11,11),(29,8),(30,14))",
    "MC(64,16,27,32;(2,1),(11,15),(22,8),(53,5))",
];
