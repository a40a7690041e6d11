#compdef oacp
# Completion of oacp for zsh. Put this line into ~/.zshrc, behind compinit:
#   source <(oacp completion zsh)
_oacp() {
    local line text
    local -a candidates
    for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}"; do
        text=${line%%$'\t'*}
        if [[ $text == :files ]]; then
            _files
        elif [[ $line == *$'\t'* ]]; then
            candidates+=("${text//:/\\:}:${line#*$'\t'}")
        elif [[ -n $text ]]; then
            candidates+=("${text//:/\\:}")
        fi
    done
    (( ${#candidates} )) && _describe oacp candidates
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _oacp "$@"
else
    compdef _oacp oacp
fi
