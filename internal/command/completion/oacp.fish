# Completion of oacp for fish. Put this line into ~/.config/fish/config.fish:
#   oacp completion fish | source
function __oacp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c oacp -f -a '(__oacp_complete)'
