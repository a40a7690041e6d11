package durable

var fallbacks []publisher
