package signing

var RandomKey = randomKey
