package project

// What the tests call of the package.
const CardName = cardName

var RuntimeOf = runtimeOf
