# Completion of oacp for bash. Put this line into ~/.bashrc:
#   source <(oacp completion bash)
_oacp() {
    local IFS=$'\n' line candidate i
    local -a words=()
    # bash cuts words at "=": put --flag=value together again.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == = && $i -gt 1 ]] || [[ ${COMP_WORDS[i - 1]} == = && $i -gt 2 ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    local current=${words[${#words[@]} - 1]} cut=
    [[ $current == --*=* ]] && cut=${current%%=*}=
    COMPREPLY=()
    for line in $("${COMP_WORDS[0]}" __complete -- "${words[@]}" 2>/dev/null); do
        candidate=${line%%$'\t'*}
        if [[ $candidate == :files ]]; then
            compopt -o default
        else
            COMPREPLY+=("${candidate#"$cut"}")
        fi
    done
    # A list of names or a flag that wants a value goes on.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -F _oacp oacp
