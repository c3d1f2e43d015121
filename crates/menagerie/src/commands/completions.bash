
# Bash splits words at colons and equals signs, and names of queues have colons: look at the line itself instead, and answer
# with what comes behind the last of them.
_menagerie_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$' \t'
    local -a COMP_WORDS
    read -ra COMP_WORDS <<< "$line"
    [[ "$line" == *[$' \t'] ]] && COMP_WORDS+=("")
    local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    local word="${COMP_WORDS[COMP_CWORD]}"
    _clap_complete_menagerie menagerie "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
    local breaks="${COMP_WORDBREAKS//[^:=]/}"
    if [[ -n "$breaks" && "$word" == *["$breaks"]* ]]; then
        local before="${word%"${word##*["$breaks"]}"}"
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
}
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then
    complete -o nospace -o bashdefault -o nosort -F _menagerie_complete menagerie
else
    complete -o nospace -o bashdefault -F _menagerie_complete menagerie
fi
