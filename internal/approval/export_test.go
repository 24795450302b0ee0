package approval

// Glob is what every pattern is matched by.
var Glob = glob
