#compdef oacp
# Completion of oacp for zsh. Put this line into ~/.zshrc, behind compinit:
#   source <(oacp completion zsh)
_oacp() {
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            _files
        elif [[ -n $line ]]; then
            candidates+=("${${line%%$'\t'*}//:/\\:}${${(M)line%%$'\t'*}:+:${line#*$'\t'}}")
        fi
    done
    (( ${#candidates} )) && _describe -V oacp candidates
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _oacp "$@"
else
    compdef _oacp oacp
fi
