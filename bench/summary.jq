# Measurements ({name, side, round, value} each) to one row a name: medians, the median of the rounds' ratios, the goal.
def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def short: if . == null then null elif . >= 100 then round else (. * 100 | round) / 100 end;
$goals[0] as $goals
| . as $all
| {
    date: $date, commit: $commit, cpu: $cpu, cores: $cores, kernel: $kernel,
    rows: [
      (reduce $all[] as $m ([]; if index([$m.name]) then . else . + [$m.name] end))[] as $name
      | ($goals[$name] // {unit: "?"}) as $goal
      | [$all[] | select(.name == $name)] as $rows
      | [$rows[] | select(.side == "bare")] as $bare
      | [$rows[] | select(.side == "wharf")] as $wharf
      | [$wharf[] as $w | $bare[] | select(.round == $w.round) | $w.value / .value] as $ratios
      | ($wharf | map(.value) | median) as $value
      | ($ratios | median) as $ratio
      | {
          name: $name, unit: $goal.unit,
          bare: ($bare | map(.value) | median | short), wharf: ($value | short), ratio: $ratio,
          rounds: {bare: ($bare | map(.value)), wharf: ($wharf | map(.value))},
          goal_text: (if $goal.ratio_min then "≥ \($goal.ratio_min * 100 | round) %" elif $goal.max then "≤ \($goal.max)" elif $goal.min then "≥ \($goal.min)" else null end),
          verdict: (
            if $goal.ratio_min and $ratio then (if $ratio >= $goal.ratio_min then "met" else "missed" end)
            elif $goal.max then (if $value <= $goal.max then "met" else "missed" end)
            elif $goal.min then (if $value >= $goal.min then "met" else "missed" end)
            else "" end)
        }
    ]
  }
